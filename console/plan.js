// The plan of a query with what was measured of it, and how its operators' inputs are split: model and measurement.

import { html } from "./vendor/htm-preact.js";
import { count } from "./format.js";
import { usePolled } from "./polled.js";

const ns = (time) => (time == null ? "–" : (time >= 1000 ? count(time) : Number(time.toPrecision(3))) + " ns");

const Split = ({ split }) => html`<div class="wide"><table class="cards">
  <caption>Operator <strong>${split.operator}</strong>, input ${split.input}: ${split.plan}. Processor time for each row that comes in.</caption>
  <thead><tr><th scope="col">stage</th><th scope="col">measured</th><th scope="col">model</th><th scope="col">rows in</th><th scope="col">rows out</th></tr></thead>
  <tbody>${split.stages.map((stage) => html`<tr>
    <td data-label="stage">${stage.name}${stage.is_slowest ? " (the most work)" : ""}</td>
    <td data-label="measured">${ns(stage.measured_ns)}</td>
    <td data-label="model">${ns(stage.predicted_ns)}</td>
    <td data-label="rows in">${count(stage.rows_in)}</td>
    <td data-label="rows out">${count(stage.rows_out)}</td></tr>`)}</tbody></table>
  ${split.model && html`<p class="quiet">By the model, for the split and the operator alone: ${split.model}</p>`}</div>`;

export const Plan = ({ name }) => {
  const { last: plan, problem } = usePolled("api/plan?query=" + encodeURIComponent(name), 5000);
  if (problem) return html`<h2>Plan</h2><p class="quiet">${problem}</p>`;
  if (!plan) return html`<h2>Plan</h2><p class="quiet">Asking the server…</p>`;
  return html`<h2>Plan</h2>
    <div class="panel wide" tabindex="0" role="region" aria-label="Plan, can be scrolled"><pre class="plan">${plan.text}</pre></div>
    ${plan.splits.length > 0 && html`<h2>Splits</h2>${plan.splits.map((split) => html`<${Split} split=${split} />`)}`}`;
};
