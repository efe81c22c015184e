// The journal of the database: what it has of each source, the snapshots of each query, and what it is kept for.

import { html } from "./vendor/htm-preact.js";
import { bytes, count, moment, ms } from "./format.js";
import { usePolled } from "./polled.js";

const range = (log) => (log.first === log.end ? "none" : `${count(log.end - log.first)} (${log.first} to ${log.end - 1})`);
const isNearlyFull = (log) => log.bytes >= 0.9 * log.bytes_max;
const full = (log) => html`<td data-label="size" class=${isNearlyFull(log) ? "bad" : ""}>${bytes(log.bytes)} of ${bytes(log.bytes_max)}</td>`;

const Source = ({ source: { name, log, held_by } }) => html`<tr>
  <td data-label="source">${name}</td>
  ${log ? html`<td data-label="rows kept">${range(log)}</td>${full(log)}
      <td data-label="segments">${count(log.segments)}</td>
      <td data-label="not on the disk yet" class=${log.failure ? "bad" : ""}>${log.failure ?? count(log.end - log.synced)}</td>`
    : html`<td data-label="rows kept" colspan="4" class="quiet">no query reads it</td>`}
  <td data-label="kept for" class="text">${!held_by ? "nothing" : html`<span><a href=${"#/query/" + encodeURIComponent(held_by.query)}>${held_by.query}</a>, from ${held_by.position} on</span>`}</td>
</tr>`;

const Snapshot = ({ query: { name, stopped, after, snapshot } }) => html`<tr>
  <td data-label="query"><a href=${"#/query/" + encodeURIComponent(name)}>${name}</a>${stopped && ", stopped"}</td>
  <td data-label="continues after cycle">${after ?? "from the first on"}</td>
  ${snapshot ? html`<td data-label="snapshot of cycle">${snapshot.cycle}</td>
      <td data-label="closed at">${moment(Math.round(snapshot.closed_ms / 1000))}</td>
      <td data-label="size">${bytes(snapshot.bytes)}</td>
      <td data-label="took">${snapshot.took_ms == null ? "taken before this start" : ms(snapshot.took_ms)}</td>`
    : html`<td data-label="snapshot of cycle" colspan="4" class="quiet">${stopped ? "not known while it is stopped" : "none yet"}</td>`}
</tr>`;

const heads = (names) => html`<thead><tr>${names.map((name) => html`<th scope="col" class=${name === "kept for" ? "text" : ""}>${name}</th>`)}</tr></thead>`;

const Found = ({ journal }) => {
  if (journal.folder == null) return html`<p class="panel">This database has no journal. <code>tidemill serve --data FOLDER</code> keeps one for sources with <code>durable = true</code>.</p>`;
  const fullSources = journal.sources.filter(({ log }) => log && isNearlyFull(log));
  return html`
    <dl class="numbers">
      <div><dt>cycles kept</dt><dd>${range(journal.cuts)}</dd></div>
      <div><dt>the oldest was closed</dt><dd>${moment(journal.oldest_closed_ms == null ? null : Math.round(journal.oldest_closed_ms / 1000))}</dd></div>
      <div><dt>log of cycles</dt><dd>${bytes(journal.cuts.bytes)}</dd></div>
      <div><dt>rows</dt><dd>${bytes(journal.sources.reduce((all, { log }) => all + (log?.bytes ?? 0), 0))}</dd></div>
    </dl>
    <p class="quiet">In <code>${journal.folder}</code></p>
    ${journal.expected.length > 0 && html`<p class="panel warn">Nothing is removed until these queries have begun: ${journal.expected.join(", ")}.</p>`}
    ${journal.cuts_held_by && html`<p class="panel limit">Cycles are kept for <strong>${journal.cuts_held_by.query}</strong>, which would continue ${journal.cuts_held_by.after == null ? "with the first cycle" : `after cycle ${journal.cuts_held_by.after}`}.</p>`}
    ${fullSources.map(({ name, held_by }) => html`<p class="panel bad">The journal of <strong>${name}</strong> is nearly full; at its limit senders are held back.${held_by && ` It is kept for ${held_by.query}.`}</p>`)}
    <h2>Sources</h2>
    ${journal.sources.length === 0 ? html`<p class="panel">No durable source has been read yet.</p>`
      : html`<div class="wide"><table class="cards"><caption>A source is kept as long as a query may need it again, and beyond that as far as its option <code>retain</code> says. Whole segments are removed.</caption>
        ${heads(["source", "rows kept", "size", "segments", "not on the disk yet", "kept for"])}
        <tbody>${journal.sources.map((source) => html`<${Source} key=${source.name} source=${source} />`)}</tbody></table></div>`}
    <h2>Snapshots</h2>
    ${journal.queries.length === 0 ? html`<p class="panel">There is no durable query.</p>`
      : html`<div class="wide"><table class="cards"><caption>After a crash, a query continues with a snapshot that all its sinks have reached, and reads the rows behind it again.</caption>
        ${heads(["query", "continues after cycle", "snapshot of cycle", "closed at", "size", "took"])}
        <tbody>${journal.queries.map((query) => html`<${Snapshot} key=${query.name} query=${query} />`)}</tbody></table></div>`}`;
};

export const Journal = () => {
  const { last: journal, problem } = usePolled("api/journal", 2000);
  return html`<h1 tabindex="-1">Journal</h1>
    ${problem && html`<p class="panel bad" role="alert">${problem}</p>`}
    ${journal ? html`<${Found} journal=${journal} />` : !problem && html`<p class="quiet">Asking the server…</p>`}`;
};
