// The log of the server while it is written, by level and by text.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { count } from "./format.js";

const KEPT = 2000, SHOWN = 300;
const LEVELS = ["ERROR", "WARN", "INFO"];
const KIND = { ERROR: "bad", WARN: "warn", INFO: "quiet" };

const time = (record) => new Date(record.time_ms).toISOString().replace("T", " ").replace("Z", "");
const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const told = (record) => record.message + Object.entries(record.fields).map(([name, value]) => ` ${name}=${written(value)}`).join("");
const parts = (id) => id.split("-").map(Number);

// Records that came too fast for the stream are missing between two of them.
const missing = (older, newer) => {
  const [[began, number], [beganNewer, next]] = [parts(older.id), parts(newer.id)];
  return began === beganNewer ? next - number - 1 : 0;
};

// Follows the log, and tells what it has so far, newest first. Returns how to stop that.
const follow = (show, fail) => {
  let records = [], isDue = false;
  const draw = () => { isDue = false; show(records); };
  const events = new EventSource("api/logs");
  events.addEventListener("record", (event) => {
    const record = JSON.parse(event.data);
    records = [{ ...record, missing: records[0] ? missing(records[0], record) : 0 }, ...records].slice(0, KEPT);
    fail(null);
    if (!isDue) { isDue = true; setTimeout(draw, 200); }
  });
  events.addEventListener("error", async () => {
    // The browser does not say why; the answer to a plain request does. A connection that broke is opened again by itself.
    if (events.readyState !== EventSource.CLOSED) return;
    try {
      const answer = await fetch("api/logs?level=error");
      if (!answer.ok) fail((await answer.json()).error.message);
    } catch {
      fail("the server does not answer");
    }
  });
  return () => events.close();
};

export const Logs = () => {
  const [records, setRecords] = useState(null);
  const [problem, setProblem] = useState(null);
  const [level, setLevel] = useState("INFO");
  const [text, setText] = useState("");
  const [held, hold] = useState(null);
  const stop = useRef(() => {});
  useEffect(() => {
    stop.current = follow(setRecords, setProblem);
    // A log without any record tells nothing.
    const empty = setTimeout(() => setRecords((known) => known ?? []), 2000);
    return () => { stop.current(); clearTimeout(empty); };
  }, []);
  const all = held ?? records ?? [];
  const severe = LEVELS.slice(0, LEVELS.indexOf(level) + 1);
  const words = text.toLowerCase();
  const found = all.filter((record) => severe.includes(record.level) && (!words || `${record.target} ${told(record)}`.toLowerCase().includes(words)));
  return html`<h1 tabindex="-1">Logs</h1>
    <div class="tools">
      <label>at least <select value=${level} onChange=${(event) => setLevel(event.target.value)}>
        <option value="ERROR">errors</option><option value="WARN">warnings</option><option value="INFO">everything</option></select></label>
      <label>with the text <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <button aria-pressed=${String(!!held)} onClick=${() => hold(held ? null : all)}>Hold</button>
      <span class="quiet" role="status">${held ? "held" : problem ? "" : "live"}</span>
    </div>
    ${problem && html`<p class="panel bad" role="alert">${problem}</p>`}
    ${!records && !problem ? html`<p class="quiet">Asking the server…</p>`
      : html`<div class="wide"><table class="cards log"><caption>${found.length > SHOWN ? `The newest ${SHOWN} of ${count(found.length)} records` : `${found.length} records`}, newest first, in UTC.</caption>
        <thead><tr>${["time", "level", "part", "message"].map((head) => html`<th scope="col" class="text">${head}</th>`)}</tr></thead>
        <tbody>${found.slice(0, SHOWN).map((record) => html`<tr key=${record.id}>
          <td data-label="time">${time(record)}</td>
          <td data-label="level" class=${"text " + KIND[record.level]}>${record.level.toLowerCase()}</td>
          <td data-label="part" class="text quiet">${record.target.replace("tidemill_", "")}</td>
          <td data-label="message" class="text message"><div>${record.message}${Object.entries(record.fields).map(([name, value]) => html` <span class="field">${name}=<b>${written(value)}</b></span>`)}
            ${record.missing > 0 && html`<p class="warn">${count(record.missing)} records before it came too fast to be shown.</p>`}</div></td>
        </tr>`)}</tbody></table></div>`}`;
};
