// What runs.

import { html } from "./vendor/htm-preact.js";
import { count, ms, percent } from "./format.js";
import { limit } from "./limit.js";
import { history, last, rates, runs } from "./status.js";

const Spark = ({ values }) => {
  const known = values.map((value) => value ?? 0).slice(-60);
  if (known.length < 2) return null;
  const most = Math.max(...known, 1);
  const points = known.map((value, index) => `${(index * 110) / (known.length - 1)},${23 - (22 * value) / most}`);
  return html`<svg class="spark" viewBox="0 0 110 24" aria-hidden="true"><polyline points=${points.join(" ")} /></svg>`;
};

const Line = ({ query }) => {
  const all = runs(query.name);
  const rate = rates(all, "rows_in");
  const limited = limit(all);
  const left = (query.late ?? 0) + (query.bad?.count ?? 0) + (query.refused?.count ?? 0);
  const isWithin = query.within_bound == null || query.within_bound >= 0.99;
  return html`<tr>
    <td data-label="query"><a href=${"#/query/" + encodeURIComponent(query.name)}>${query.name}</a></td>
    <td data-label="state" class="text"><span class="badge ${query.state}">${query.state}</span></td>
    <td data-label="rows/s">${count(rate[rate.length - 1])} <${Spark} values=${rate} /></td>
    <td data-label="rows in">${count(query.rows_in)}</td>
    <td data-label="rows out">${count(query.rows_out)}</td>
    <td data-label="left out" class=${left > 0 ? "warn" : ""}>${query.late == null ? "–" : count(left)}</td>
    <td data-label="lag">${query.lag_cycles ? ms(query.lag_ms) : query.lag_cycles === 0 ? "none" : "–"}</td>
    <td data-label="p50">${ms(query.response?.p50_ms)}</td>
    <td data-label="p99">${ms(query.response?.p99_ms)}</td>
    <td data-label="within bound" class=${isWithin ? "" : "bad"}>${query.bound_ms == null ? "no bound" : `${percent(query.within_bound)} of ${ms(query.bound_ms)}`}</td>
    <td data-label="limited by" class=${"text long" + (limited?.isLimit ? " limiting" : "")} title=${limited?.isLimit ? `${limited.name}. ${limited.why}` : limited?.why}>${!limited ? "–" : limited.isLimit ? limited.name : "nothing"}</td>
  </tr>`;
};

export const Overview = () => {
  const status = last();
  if (!status) return html`<h1 tabindex="-1">Queries</h1><p class="quiet">${history.error ?? "Asking the server…"}</p>`;
  const heads = ["query", "state", "rows/s", "rows in", "rows out", "left out", "lag", "p50", "p99", "within bound", "limited by"];
  return html`<h1 tabindex="-1">Queries</h1>
    ${status.starting && html`<p class="warn">Queries are being started.</p>`}
    ${status.queries.length === 0
      ? html`<p class="panel">Nothing runs. A materialized view or a sink starts a query: connect with
          <code> psql -h 127.0.0.1 -p 5433</code>, and write <code>CREATE MATERIALIZED VIEW name AS SELECT …</code>.</p>`
      : html`<div class="wide"><table class="cards">
          <caption>What runs, once a second. Response times are since the start of each query.</caption>
          <thead><tr>${heads.map((head, index) => html`<th scope="col" class=${index === 1 || index === 10 ? "text" : ""}>${head}</th>`)}</tr></thead>
          <tbody>${status.queries.map((query) => html`<${Line} key=${query.name} query=${query} />`)}</tbody>
        </table></div>`}
    ${status.queries.filter((query) => query.problem).map((query) => html`<p class="panel bad"><strong>${query.name}</strong> has failed: ${query.problem}</p>`)}`;
};
