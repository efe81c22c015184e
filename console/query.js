// One query: its numbers, its response times, its dataflow, its sources and sinks.

import { html } from "./vendor/htm-preact.js";
import { bytes, count, moment, ms, percent } from "./format.js";
import { Graph } from "./graph.js";
import { limit } from "./limit.js";
import { Plan } from "./plan.js";
import { Plot } from "./plot.js";
import { last, quantile, rates, runs } from "./status.js";

const Number_ = ({ name, value, kind }) => html`<div><dt>${name}</dt><dd class=${kind ?? ""}>${value}</dd></div>`;

const Samples = ({ title, faults }) =>
  faults?.count > 0 &&
  html`<h2>${title}: ${count(faults.count)}</h2><ul class="panel">${faults.samples.map((sample) => html`<li>${sample}</li>`)}</ul>`;

export const Query = ({ name }) => {
  const query = last()?.queries.find((query) => query.name === name);
  if (!query) return html`<h1 tabindex="-1">${name}</h1><p>There is no such query (any more). <a href="#/">All queries</a></p>`;
  const all = runs(name);
  const head = html`<h1 tabindex="-1">${name} <span class="badge ${query.state}">${query.state}</span></h1>
    ${query.problem && html`<p class="panel bad">It has failed: ${query.problem}</p>`}`;
  if (query.elapsed_ms == null) return head;
  const limited = limit(all);
  const rate = rates(all, "rows_in");
  const pairs = all.slice(1).map((other, index) => [all[index], other]);
  const x = all.slice(1).map((other) => (other.elapsed_ms - query.elapsed_ms) / 1000);
  const lines = [
    { name: "p50 below (ms)", values: pairs.map(([one, other]) => quantile(one, other, 0.5)) },
    { name: "p99 below (ms)", values: pairs.map(([one, other]) => quantile(one, other, 0.99)) },
  ];
  if (query.bound_ms != null) lines.push({ name: "bound (ms)", values: x.map(() => query.bound_ms) });
  const left = query.late + query.bad.count + query.refused.count;
  return html`${head}
    <dl class="numbers">
      <${Number_} name="rows in" value=${count(query.rows_in)} />
      <${Number_} name="rows/s" value=${count(rate[rate.length - 1])} />
      <${Number_} name="rows out" value=${count(query.rows_out)} />
      <${Number_} name="lag" value=${query.lag_cycles ? `${ms(query.lag_ms)}, ${query.lag_cycles} cycles` : "none"} />
      <${Number_} name="late, bad, refused" value=${`${count(query.late)}, ${count(query.bad.count)}, ${count(query.refused.count)}`} kind=${left > 0 ? "warn" : ""} />
      <${Number_} name="p50" value=${ms(query.response.p50_ms)} />
      <${Number_} name="p99" value=${ms(query.response.p99_ms)} />
      <${Number_} name="longest" value=${ms(query.response.max_ms)} />
      <${Number_} name=${query.bound_ms == null ? "bound" : "within " + ms(query.bound_ms)}
        value=${query.bound_ms == null ? "none" : percent(query.within_bound)} kind=${query.bound_ms == null ? "" : query.within_bound < 0.99 ? "bad" : "good"} />
    </dl>
    ${limited && html`<p class=${limited.isLimit ? "panel limit" : "panel"}>${limited.isLimit ? "Limited by" : "Nothing limits it. The most work has"} <strong>${limited.name}</strong>. ${limited.why}.</p>`}
    <h2>Response times</h2>
    ${x.length > 1
      ? html`<${Plot} label=${`Response times of ${name} over the last seconds`} across="seconds" x=${x} lines=${lines} />`
      : html`<p class="quiet">The plot begins with the next looks.</p>`}
    <h2>Dataflow</h2>
    <${Graph} dataflow=${query.dataflow} limit=${limited} />
    <${Plan} name=${name} />
    <h2>Sources</h2>
    <div class="wide"><table class="cards"><thead><tr>
      <th scope="col">source</th><th scope="col">rows</th><th scope="col">size</th><th scope="col">late</th><th scope="col">bad</th>
      <th scope="col">complete up to</th></tr></thead>
      <tbody>${query.sources.map((source) => html`<tr>
        <td data-label="source">${source.name}${source.ended ? " (ended)" : ""}</td><td data-label="rows">${count(source.rows)}</td>
        <td data-label="size">${bytes(source.bytes)}</td><td data-label="late">${count(source.late)}</td><td data-label="bad">${count(source.bad)}</td>
        <td data-label="complete up to">${moment(source.watermark_s)}</td></tr>`)}</tbody></table></div>
    <h2>Sinks and views</h2>
    <div class="wide"><table class="cards"><thead><tr>
      <th scope="col">name</th><th scope="col">cycles committed</th><th scope="col">cycles waiting</th><th scope="col">nothing committed for</th></tr></thead>
      <tbody>${query.sinks.map((sink) => html`<tr><td data-label="name">${sink.name}</td>
        <td data-label="cycles committed">${count(sink.cycles_committed)}</td><td data-label="cycles waiting">${count(sink.cycles_waiting)}</td>
        <td data-label="nothing committed for">${sink.cycles_waiting > 0 ? ms(sink.idle_ms) : "–"}</td></tr>`)}</tbody></table></div>
    <${Samples} title="Rows that could not be used" faults=${query.bad} />
    <${Samples} title="Rows that a sink refused" faults=${query.refused} />
    <${Samples} title="Results that did not fit and are NULL" faults=${query.null_results} />`;
};
