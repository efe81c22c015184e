// The gateways: whether each answers, what enters it, and the fragments that it keeps.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { bytes, count, ms } from "./format.js";

// Numbers come as texts.
const number = (text) => (text == null || text === "" ? null : Number(text));

// "recent at west", "views at west": what a gateway computes, or that it is away.
const gatewayOf = (query) => (query.includes(" at ") ? query.slice(query.lastIndexOf(" at ") + 4) : null);

// What is known of each gateway, in the order of their names. The server itself has no name.
const gatewaysOf = ({ sources, fragments, queries }) => {
  const found = new Map();
  const at = (name) => found.get(name) ?? found.set(name, { name, sources: [], fragments: [], troubles: [] }).get(name);
  sources.forEach((source) => at(source.gateway).sources.push(source));
  fragments.forEach((fragment) => at(fragment.gateway).fragments.push(fragment));
  queries.filter(({ name }) => gatewayOf(name) != null).forEach((query) => {
    const gateway = at(gatewayOf(query.name));
    if (query.state === "away") gateway.away = query.reason;
    else if (query.reason) gateway.troubles.push(query);
  });
  return [...found.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
};

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
  const [looks, setLooks] = useState([]);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const control = new AbortController();
    let timer;
    const again = async () => {
      try {
        const answer = await fetch("api/gateways", { signal: control.signal });
        const told = await answer.json();
        setProblem(answer.ok ? null : told.error.message);
        if (answer.ok) setLooks(([, last]) => [last, { ...told, at: performance.now() }]);
      } catch {
        // The header of the page says that the server does not answer.
      }
      if (!control.signal.aborted) timer = setTimeout(again, 2000);
    };
    again();
    return () => { control.abort(); clearTimeout(timer); };
  }, []);
  const [before, now] = looks;
  const gateways = now ? gatewaysOf(now) : [];
  return html`<h1 tabindex="-1">Gateways</h1>
    ${problem && html`<p class="panel bad" role="alert">${problem}</p>`}
    ${now && !gateways.some(({ name }) => name) && html`<p class="panel">Rows enter at the server itself. A source that is created <code>WITH (gateway = 'west')</code> enters at a process of its own.</p>`}
    ${now ? gateways.map((gateway) => html`<${Gateway} key=${gateway.name} gateway=${gateway} rates=${ratesSince(before, now)} />`)
      : !problem && html`<p class="quiet">Asking the server…</p>`}`;
};
