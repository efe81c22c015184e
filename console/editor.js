// A statement, its rows as a table, as lines or on a map, and its error at its place.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask } from "./ask.js";
import { written as asName } from "./completion.js";
import { PlaceMap } from "./map.js";
import { counted } from "./places.js";
import { Plot } from "./plot.js";
import { NUMBERS, Rows, TIMES } from "./rows.js";
import { Statement } from "./statement.js";
import { last } from "./status.js";

const KEPT = 5000, SECONDS = 20;

const kept = { text: "", answer: null };

// A text for the editor from another page.
export const offer = (text) => { kept.text = text; kept.answer = null; };

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
    .map(([x, y]) => [x, Number.isFinite(y) ? y : null])
    .filter(([x]) => Number.isFinite(x))
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

const Places = ({ columns, rows }) => {
  const usable = columns.filter((column) => NUMBERS.test(column.type));
  const [chosen, choose] = useState({});
  const [area, setArea] = useState(null);
  if (usable.length < 2) return html`<p class="quiet">A map needs two columns with numbers.</p>`;
  const find = (name) => usable.find((column) => column.name === name);
  const x = find(chosen.x) ?? find("x") ?? usable[0];
  const y = find(chosen.y) ?? find("y") ?? usable.find((column) => column !== x);
  const points = rows.map((row) => [number(x, row[columns.indexOf(x)]), number(y, row[columns.indexOf(y)])]);
  const options = usable.map((column) => html`<option value=${column.name}>${column.name}</option>`);
  const pick = (axis) => (event) => { setArea(null); choose({ ...chosen, [axis]: event.target.value }); };
  return html`<div class="tools">
      <label>across <select value=${x.name} onChange=${pick("x")}>${options}</select></label>
      <label>up <select value=${y.name} onChange=${pick("y")}>${options}</select></label>
    </div>
    <${PlaceMap} ...${counted(points, area)} label="the answer" names=${[x.name, y.name]} area=${area} setArea=${setArea} />`;
};

const SHAPES = { table: ["Table", Rows], lines: ["Plot", Lines], map: ["Map", Places] };

export const Editor = () => {
  const [written, setWritten] = useState(kept.text);
  const [wrongAt, setWrongAt] = useState(null);
  const setText = (value) => { setWrongAt(null); setWritten((kept.text = value)); };
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
      setWrongAt(at);
      text.current.focus();
      text.current.setSelectionRange(at, at);
    }
  };

  const run = async () => {
    stop.current();
    setWrongAt(null);
    const control = new AbortController();
    stop.current = () => control.abort();
    setRunning(true);
    try {
      const answer = await ask(text.current.value, { rows_max: KEPT, seconds_max: SECONDS, signal: control.signal });
      if (answer.columns) show({ ...answer, text: text.current.value });
      else fail(answer.error);
    } catch (error) {
      if (!control.signal.aborted) fail({ code: "", message: "the server does not answer: " + error.message });
    }
    setRunning(false);
  };

  const follow = () => {
    stop.current();
    const events = new EventSource(`subscribe?value_bytes_max=2000&query=${encodeURIComponent(text.current.value)}`);
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
  const views = (last()?.queries ?? []).flatMap((query) => query.outputs);
  const error = answer?.error;
  const hint = views.length ? `SELECT * FROM ${asName(views[0])} LIMIT 100` : "SELECT value, value % 10 AS digit FROM sequence(count => 100)";
  return html`<h1 tabindex="-1">Editor</h1>
    <label for="statement">A statement: SELECT, SHOW, DESCRIBE or EXPLAIN</label>
    <${Statement} field=${text} text=${written} setText=${setText} error=${wrongAt} placeholder=${hint} onRun=${run} onStop=${halt} />
    <div class="tools">
      <button class="main" onClick=${run} disabled=${isRunning}>Run</button>
      <button onClick=${follow} disabled=${isRunning}>Follow</button>
      <button onClick=${halt} disabled=${!isRunning}>Stop</button>
      <span class="quiet">Ctrl+Enter runs, Ctrl+Space completes; Follow shows rows as they come</span>
    </div>
    <div id="problem" role="alert">${error && html`<div class="panel">
      <strong class="bad">${error.message}</strong> ${error.code && html`<span class="quiet">${error.code}</span>`}
      ${error.position && answer.text && html`<pre class="place">${place(answer.text, error.position)}</pre>`}
      ${error.hint && html`<div>${error.hint}</div>`}</div>`}</div>
    <div aria-live="polite" class="quiet">${isRunning ? "It runs…" : ""}</div>
    ${answer?.columns && html`<div class="tools" role="group" aria-label="How rows are shown">
        ${Object.entries(SHAPES).map(([name, [title]]) => html`<button aria-pressed=${String(shape === name)}
          onClick=${() => setShape(name)}>${title}</button>`)}
      </div>
      <${SHAPES[shape][1]} ...${answer} />`}`;
};
