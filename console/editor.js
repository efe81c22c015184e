// A statement, its rows as a table or as lines, and its error at its place.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Plot } from "./plot.js";
import { last } from "./status.js";

const SHOWN = 500, KEPT = 5000, SECONDS = 20;
const NUMBERS = /^(smallint|integer|bigint|real|double precision|numeric)$/;
const TIMES = /^(timestamp|date)/;

const kept = { text: "", answer: null };

// The line of an error, and a mark below its place.
const place = (text, position) => {
  const letters = [...text];
  const before = letters.slice(0, position - 1).join("");
  const start = before.lastIndexOf("\n") + 1;
  const line = text.slice(start).split("\n")[0];
  return line + "\n" + " ".repeat([...before.slice(start)].length) + "^";
};

const number = (column, text) => {
  if (text == null) return null;
  if (TIMES.test(column.type)) return Date.parse(text.replace(" ", "T") + (/[+-]\d\d(:\d\d)?$|Z$/.test(text) ? "" : "Z")) / 1000;
  return column.type === "boolean" ? (text === "t" ? 1 : 0) : Number(text);
};

const Table = ({ columns, rows }) => html`<div class="wide" tabindex="0" role="region" aria-label="Rows, can be scrolled"><table>
  <caption>${rows.length > SHOWN ? `the first ${SHOWN} of ${rows.length} rows` : rows.length === 1 ? "1 row" : rows.length + " rows"}</caption>
  <thead><tr>${columns.map((column) => html`<th scope="col" title=${column.type} class=${NUMBERS.test(column.type) ? "" : "text"}>${column.name}</th>`)}</tr></thead>
  <tbody>${rows.slice(0, SHOWN).map((row) => html`<tr>${row.map((value, index) => value == null
    ? html`<td class="null">NULL</td>`
    : html`<td class=${NUMBERS.test(columns[index].type) ? "long" : "long text"} title=${value.length > 60 ? value : undefined}>${value}</td>`)}</tr>`)}</tbody>
</table></div>`;

const Lines = ({ columns, rows }) => {
  const usable = columns.filter((column) => NUMBERS.test(column.type) || TIMES.test(column.type));
  const [chosen, choose] = useState({});
  if (usable.length === 0) return html`<p class="quiet">A plot needs a column with numbers or times.</p>`;
  const find = (name) => usable.find((column) => column.name === name);
  const x = chosen.x === "" ? null : find(chosen.x) ?? usable.find((column) => TIMES.test(column.type)) ?? (usable.length > 1 ? usable[0] : null);
  const y = find(chosen.y) ?? usable.find((column) => column !== x && NUMBERS.test(column.type)) ?? usable[0];
  const at = (column) => columns.indexOf(column);
  const points = rows
    .map((row, index) => [x ? number(x, row[at(x)]) : index, number(y, row[at(y)])])
    .filter(([x]) => x != null && !Number.isNaN(x))
    .sort((a, b) => a[0] - b[0]);
  const options = usable.map((column) => html`<option value=${column.name}>${column.name}</option>`);
  return html`<div class="tools">
      <label>across <select value=${x?.name ?? ""} onChange=${(event) => choose({ ...chosen, x: event.target.value })}>
        <option value="">number of the row</option>${options}</select></label>
      <label>up <select value=${y.name} onChange=${(event) => choose({ ...chosen, y: event.target.value })}>${options}</select></label>
    </div>
    <${Plot} label=${`${y.name} over ${x?.name ?? "rows"}, ${points.length} points`} across=${x?.name ?? "row"} isTime=${!!x && TIMES.test(x.type)}
      x=${points.map(([x]) => x)} lines=${[{ name: y.name, values: points.map(([, y]) => y) }]} />`;
};

export const Editor = () => {
  const [answer, setAnswer] = useState(kept.answer);
  const [isRunning, setRunning] = useState(false);
  const [shape, setShape] = useState("table");
  const text = useRef();
  const stop = useRef(() => {});
  useEffect(() => () => stop.current(), []);
  const show = (answer) => setAnswer((kept.answer = answer));

  const fail = (error) => {
    show((kept.answer = { ...(error.rows ?? {}), error, text: text.current.value }));
    if (error.position) {
      const at = [...text.current.value].slice(0, error.position - 1).join("").length;
      text.current.focus();
      text.current.setSelectionRange(at, at);
    }
  };

  const run = async () => {
    stop.current();
    const control = new AbortController();
    stop.current = () => control.abort();
    setRunning(true);
    try {
      const answered = await fetch(`query?rows_max=${KEPT}&seconds_max=${SECONDS}`, {
        method: "POST", body: text.current.value, headers: { Accept: "application/json" }, signal: control.signal,
      });
      const answer = await answered.json();
      if (answer.columns) show({ ...answer, text: text.current.value });
      else fail(answer.error);
    } catch (error) {
      if (!control.signal.aborted) fail({ code: "", message: "the server does not answer: " + error.message });
    }
    setRunning(false);
  };

  const follow = () => {
    stop.current();
    const events = new EventSource("subscribe?query=" + encodeURIComponent(text.current.value));
    const end = () => { events.close(); setRunning(false); };
    stop.current = end;
    setRunning(true);
    let columns = [], key = null, rows = [], places = new Map(), isDue = false;
    const draw = () => {
      isDue = false;
      show({ columns, rows: [...rows], text: text.current?.value });
    };
    const later = () => { if (!isDue) { isDue = true; setTimeout(draw, 200); } };
    events.addEventListener("columns", (event) => {
      ({ columns } = JSON.parse(event.data));
      key = JSON.parse(event.data).key?.map((name) => columns.findIndex((column) => column.name === name));
      later();
    });
    events.addEventListener("rows", (event) => {
      for (const row of JSON.parse(event.data)) {
        const name = key && JSON.stringify(key.map((index) => row[index]));
        if (key && places.has(name)) rows[places.get(name)] = row;
        else { if (key) places.set(name, rows.length); rows.push(row); }
      }
      if (!key && rows.length > KEPT) rows = rows.slice(-KEPT);
      later();
    });
    events.addEventListener("end", end);
    events.addEventListener("error", (event) => {
      end();
      if (event.data) fail(JSON.parse(event.data));
      // The browser does not say why; the answer to a plain request does.
      else if (columns.length === 0) run();
    });
  };

  const halt = () => { stop.current(); setRunning(false); };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
    if (event.key === "Escape" && isRunning) halt();
  };
  const views = (last()?.queries ?? []).flatMap((query) => query.outputs);
  const error = answer?.error;
  const hint = views.length ? `SELECT * FROM ${views[0]} LIMIT 100` : "SELECT value, value % 10 AS digit FROM sequence(count => 100)";
  return html`<h1 tabindex="-1">Editor</h1>
    <label for="statement">A statement: SELECT, SHOW, DESCRIBE or EXPLAIN</label>
    <textarea id="statement" ref=${text} spellcheck="false" autocapitalize="off" autocomplete="off" placeholder=${hint}
      aria-invalid=${error ? "true" : "false"} aria-describedby="problem" onKeyDown=${keys}
      onInput=${(event) => { kept.text = event.target.value; }} defaultValue=${kept.text}></textarea>
    <div class="tools">
      <button class="main" onClick=${run} disabled=${isRunning}>Run</button>
      <button onClick=${follow} disabled=${isRunning}>Follow</button>
      <button onClick=${halt} disabled=${!isRunning}>Stop</button>
      <span class="quiet">Ctrl+Enter runs; Follow shows rows as they come</span>
    </div>
    <div id="problem" role="alert">${error && html`<div class="panel">
      <strong class="bad">${error.message}</strong> ${error.code && html`<span class="quiet">${error.code}</span>`}
      ${error.position && answer.text && html`<pre class="place">${place(answer.text, error.position)}</pre>`}
      ${error.hint && html`<div>${error.hint}</div>`}</div>`}</div>
    <div aria-live="polite" class="quiet">${isRunning ? "It runs…" : ""}</div>
    ${answer?.columns && html`<div class="tools" role="group" aria-label="How rows are shown">
        <button aria-pressed=${String(shape === "table")} onClick=${() => setShape("table")}>Table</button>
        <button aria-pressed=${String(shape === "lines")} onClick=${() => setShape("lines")}>Plot</button>
      </div>
      ${shape === "table" ? html`<${Table} ...${answer} />` : html`<${Lines} ...${answer} />`}`}`;
};
