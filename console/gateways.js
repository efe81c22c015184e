// The gateways: whether each answers, what enters it, and the fragments that it keeps.

import { html } from "./vendor/htm-preact.js";
import { bytes, count, ms } from "./format.js";
import { usePolled } from "./polled.js";

// Numbers come as texts.
const number = (text) => (text == null || text === "" ? null : Number(text));

// What is known of each gateway. The server itself, whose rows name no gateway, comes first.
const gatewaysOf = ({ gateways, sources, fragments, queries }) => ["", ...gateways].map((name) => {
  const isHere = ({ gateway }) => gateway === name;
  // "recent at west"; one row "views at west" if it is away.
  const own = queries.filter((query) => name && query.name.endsWith(" at " + name));
  return {
    name,
    sources: sources.filter(isHere),
    fragments: fragments.filter(isHere),
    away: own.find((query) => query.name === "views at " + name && query.state === "away")?.reason,
    troubles: own.filter((query) => query.state !== "away" && query.reason),
  };
}).filter(({ name, sources, fragments }) => name || sources.length > 0 || fragments.length > 0);

const Source = ({ source, rate }) => html`<tr>
  <td data-label="source">${source.source}</td>
  <td data-label="query" class="text">${source.query}</td>
  <td data-label="rows/s">${count(rate)}</td>
  <td data-label="rows in">${count(number(source.rows))}</td>
  <td data-label="cycles">${count(number(source.cycles))}</td>
  <td data-label="a cycle takes">${ms(number(source.cycle_ms_mean))}</td>
  <td data-label="p99">${ms(number(source.cycle_ms_p99))}</td>
  <td data-label="at most">${ms(number(source.cycle_ms_max))}</td>
  <td data-label="held back" class=${number(source.held_back_seconds) > 0 ? "warn" : ""}>${ms(1000 * number(source.held_back_seconds))}</td>
</tr>`;

const Fragment = ({ fragment }) => html`<tr>
  <td data-label="view">${fragment.view}</td>
  <td data-label="fragment">${fragment.fragment}</td>
  <td data-label="rows">${count(number(fragment.rows))}</td>
  <td data-label="size">${bytes(number(fragment.bytes))}</td>
  <td data-label="newest cycle">${fragment.newest_cycle || "none yet"}</td>
  <td data-label="rows dropped">${count(number(fragment.rows_dropped))}</td>
</tr>`;

const head = (names) => html`<thead><tr>${names.map((name) => html`<th scope="col" class=${name === "query" ? "text" : ""}>${name}</th>`)}</tr></thead>`;

const Gateway = ({ gateway, rates }) => {
  const process = (gateway.sources[0] ?? gateway.fragments[0])?.process;
  const title = gateway.name || "The server itself";
  return html`<section aria-label=${title}>
    <h2>${title} <span class="badge ${gateway.away ? "failed" : "running"}">${gateway.away ? "away" : "answers"}</span></h2>
    ${gateway.away ? html`<p class="panel bad">It is away: ${gateway.away}</p>` : html`<p class="quiet">Process ${process ?? "not known"}</p>`}
    ${gateway.troubles.map(({ name, state, reason }) => html`<p class="panel bad"><strong>${name}</strong> is ${state}: ${reason}</p>`)}
    ${gateway.sources.length > 0 && html`<div class="wide"><table class="cards"><caption>What enters, for each query that reads it</caption>
      ${head(["source", "query", "rows/s", "rows in", "cycles", "a cycle takes", "p99", "at most", "held back"])}
      <tbody>${gateway.sources.map((source) => html`<${Source} key=${source.source + " " + source.query} source=${source} rate=${rates(source)} />`)}</tbody></table></div>`}
    ${gateway.fragments.length > 0 && html`<div class="wide"><table class="cards"><caption>Fragments of views</caption>
      ${head(["view", "fragment", "rows", "size", "newest cycle", "rows dropped"])}
      <tbody>${gateway.fragments.map((fragment) => html`<${Fragment} key=${fragment.view + " " + fragment.fragment} fragment=${fragment} />`)}</tbody></table></div>`}
  </section>`;
};

// Rows per second since the look before; a process that was started again counts from its beginning.
const ratesSince = (before, now) => (source) => {
  const same = before?.sources.find((other) => ["gateway", "process", "source", "query"].every((key) => other[key] === source[key]));
  return same ? (1000 * (source.rows - same.rows)) / (now.at - before.at) : null;
};

export const Gateways = () => {
  const { last: now, before, problem } = usePolled("api/gateways", 2000);
  const gateways = now ? gatewaysOf(now) : [];
  return html`<h1 tabindex="-1">Gateways</h1>
    ${problem && html`<p class="panel bad" role="alert">${problem}</p>`}
    ${now && !gateways.some(({ name }) => name) && html`<p class="panel">Rows enter at the server itself. A source that is created <code>WITH (gateway = 'west')</code> enters at a process of its own.</p>`}
    ${now ? gateways.map((gateway) => html`<${Gateway} key=${gateway.name} gateway=${gateway} rates=${ratesSince(before, now)} />`)
      : !problem && html`<p class="quiet">Asking the server…</p>`}`;
};
