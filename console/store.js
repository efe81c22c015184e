// What a materialized view holds, by place and time, now or after an earlier cycle.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { quoted, rowsOf } from "./ask.js";
import { offer } from "./editor.js";
import { bytes, count, moment } from "./format.js";
import { PlaceMap } from "./map.js";
import { COLUMNS, LINES, POINTS_MAX, roomy } from "./places.js";
import { Rows, TIMES } from "./rows.js";

const SHOWN = 200, SECONDS = 20, BARS = 60;
// Beyond this, differences of coordinates are not numbers any more.
const FAR = "1e150";

const get = async (path, signal) => {
  const answer = await fetch(path, { cache: "no-store", signal });
  const read = await answer.json();
  if (!answer.ok) throw new Error(read.error?.message ?? "the server answers " + answer.status);
  return read;
};

const literal = (number) => (number < 0 ? `(${number})` : String(number));
const isMoment = (store) => TIMES.test(store.columns.find((column) => column.name === store.time)?.type);
const seconds = (store) =>
  isMoment(store) ? `extract(epoch FROM ${quoted(store.time)})` : `CAST(${quoted(store.time)} AS DOUBLE)`;

// The statements about a store as of a cycle.
const statements = (store, cycle, area, span) => {
  const from = `FROM ${quoted(store.name)} AS OF CYCLE ${cycle}`;
  const [x, y] = (store.point ?? []).map((name) => `CAST(${quoted(name)} AS DOUBLE)`);
  const near = (...names) => names.map((name) => `abs(${name}) < ${FAR}`).join(" AND ");
  const within = (box) => store.point
    .map((name, at) => `${quoted(name)} BETWEEN ${literal(box[2 * at])} AND ${literal(box[2 * at + 1])}`).join(" AND ");
  const during = span ? `${seconds(store)} BETWEEN ${literal(span[0])} AND ${literal(span[1])}` : null;
  const where = (...conditions) => {
    const all = conditions.filter(Boolean);
    return all.length ? " WHERE " + all.join(" AND ") : "";
  };
  const bin = (value, start, end, most) =>
    `CAST(least(floor((${value} - ${literal(start)}) / ${literal((end - start) / most)}), ${most - 1}) AS BIGINT)`;
  return {
    extent: "SELECT count(*) AS n" + (store.point ? [`count(CASE WHEN ${near(x, y)} THEN 1 END)`,
      `min(CASE WHEN ${near(x, y)} THEN ${x} END)`, `max(CASE WHEN ${near(x, y)} THEN ${x} END)`,
      `min(CASE WHEN ${near(x, y)} THEN ${y} END)`, `max(CASE WHEN ${near(x, y)} THEN ${y} END)`]
      .map((column, index) => `, ${column} AS e${index}`).join("") : "")
      + (store.time ? `, min(${seconds(store)}) AS t0, max(${seconds(store)}) AS t1` : "") + ` ${from}`,
    cells: (box) => `SELECT ${bin(x, box[0], box[1], COLUMNS)} AS i, ${bin(y, box[2], box[3], LINES)} AS j, count(*) AS n ${from}`
      + where(within(box), near(x, y), during) + " GROUP BY 1, 2",
    points: (box) => `SELECT ${x} AS x, ${y} AS y ${from}` + where(within(box), near(x, y), during) + ` LIMIT ${POINTS_MAX}`,
    bars: (start, end) => `SELECT ${bin(seconds(store), start, end, BARS)} AS i, count(*) AS n ${from}`
      + where(store.point && area && within(area)) + ` GROUP BY 1`,
    rows: `SELECT * ${from}` + where(store.point && area && within(area), during)
      + (store.time ? ` ORDER BY ${quoted(store.time)} DESC` : "") + ` LIMIT ${SHOWN}`,
  };
};

const numbers = (row) => row.map((value) => (value == null ? null : Number(value)));

// Everything that the page shows of one cycle.
const look = async (store, cycle, area, share, signal) => {
  const read = async (statement, rows_max) =>
    (await rowsOf(statement, { rows_max, seconds_max: SECONDS, signal })).rows;
  const all = numbers((await read(statements(store, cycle).extent, 1))[0]);
  const seen = { cycle, total: all[0], map: null, time: null };
  let span = null;
  if (store.time) {
    const [start, end] = all.slice(-2);
    if (start != null && end > start) {
      if (share[0] > 0 || share[1] < BARS) span = share.map((at) => start + ((end - start) * at) / BARS);
      const bars = (await read(statements(store, cycle, area).bars(start, end), BARS + 1)).map(numbers);
      seen.time = { start, end, bars: bars.filter(([i]) => i >= 0 && i < BARS), span };
    }
  }
  const asked = statements(store, cycle, area, span);
  if (store.point) {
    const [, placed, ...edges] = all;
    const box = placed > 0 ? area ?? roomy(edges.slice(0, 4)) : null;
    const cells = box ? (await read(asked.cells(box), COLUMNS * LINES + 1)).map(numbers) : [];
    const rows = cells.reduce((sum, [, , n]) => sum + n, 0);
    const points = box && rows <= POINTS_MAX ? (await read(asked.points(box), POINTS_MAX)).map(numbers) : null;
    seen.map = { box, cells, points, rows, unplaced: seen.total - placed };
  }
  seen.statement = asked.rows;
  seen.answer = await rowsOf(asked.rows, { rows_max: SHOWN, seconds_max: SECONDS, signal });
  return seen;
};

const stores = async (signal) => (await get("api/stores", signal)).stores;

const described = async (name, signal) => {
  const { relations } = await get("api/catalog", signal);
  return relations.find((relation) => relation.name === name)?.columns ?? [];
};

export const Stores = () => {
  const [all, setAll] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const control = new AbortController();
    let timer;
    const again = async () => {
      try { setAll(await stores(control.signal)); setProblem(null); } catch (error) { setProblem(error.message); }
      if (!control.signal.aborted) timer = setTimeout(again, 1000);
    };
    again();
    return () => { control.abort(); clearTimeout(timer); };
  }, []);
  const heads = ["view", "rows", "memory", "found by", "cycles that can be read", "dropped"];
  const found = (store) => [store.key?.length && "key " + store.key.join(", "), store.time && "time " + store.time,
    store.point && "place " + store.point.join(", ")].filter(Boolean).join("; ");
  return html`<h1 tabindex="-1">Store</h1>
    ${problem && html`<p class="panel bad">${problem}</p>`}
    ${all?.length === 0 && html`<p class="panel">No materialized view runs. Keep the rows of a query with
      <code> CREATE MATERIALIZED VIEW name AS SELECT … WITH (retain = '10 minutes', point = 'x, y', key = 'vid')</code>.</p>`}
    ${all?.length > 0 && html`<div class="wide"><table class="cards">
      <caption>What materialized views hold in memory. A view's page shows it on a map and after earlier cycles.</caption>
      <thead><tr>${heads.map((head, index) => html`<th scope="col" class=${index === 3 ? "text" : ""}>${head}</th>`)}</tr></thead>
      <tbody>${all.map((store) => html`<tr key=${store.name}>
        <td data-label="view"><a href=${"#/store/" + encodeURIComponent(store.name)}>${store.name}</a></td>
        <td data-label="rows">${count(store.rows)}</td><td data-label="memory">${bytes(store.bytes)}</td>
        <td data-label="found by" class="text">${found(store) || "–"}</td>
        <td data-label="cycles">${store.cycles ? store.cycles.join(" to ") : "–"}</td>
        <td data-label="dropped">${count(store.rows_dropped)}</td></tr>`)}</tbody></table></div>`}`;
};

const Bars = ({ time, isTime, share, setShare }) => {
  const most = Math.max(1, ...time.bars.map(([, n]) => n));
  const at = (bar) => time.start + ((time.end - time.start) * bar) / BARS;
  const told = (value) => (isTime ? moment(Math.round(value * 1000) / 1000) : String(value));
  const [from, to] = share;
  const move = (index) => (event) => {
    const value = Number(event.target.value);
    setShare(index === 0 ? [Math.min(value, to - 1), to] : [from, Math.max(value, from + 1)]);
  };
  return html`<div class="panel bars">
    <svg viewBox="0 0 ${BARS} 24" preserveAspectRatio="none" role="img"
      aria-label=${`Rows over time, from ${told(time.start)} to ${told(time.end)}`}>
      ${time.bars.map(([i, n]) => html`<rect class=${i >= from && i < to ? "" : "out"} x=${i + 0.05} width="0.9"
        y=${24 - Math.max(0.7, (23 * n) / most)} height=${Math.max(0.7, (23 * n) / most)} />`)}
    </svg>
    <div class="tools">
      <label>from <input type="range" min="0" max=${BARS} value=${from} onInput=${move(0)} aria-valuetext=${told(at(from))} /></label>
      <label>to <input type="range" min="0" max=${BARS} value=${to} onInput=${move(1)} aria-valuetext=${told(at(to))} /></label>
      <span class="quiet">${told(at(from))} to ${told(at(to))}</span>
    </div>
  </div>`;
};

const Cycles = ({ store, shown, pinned, pin }) => {
  if (!store.cycles) return html`<p class="panel quiet">No row has come yet, so there is no cycle to read.</p>`;
  const [oldest, newest] = store.cycles;
  const isGone = pinned != null && pinned < oldest;
  return html`<div class="panel cycles">
    <div class="tools">
      <label class="grow">as of cycle
        <input type="range" min=${Math.min(oldest, pinned ?? oldest)} max=${newest} step="1" value=${pinned ?? newest}
          aria-valuetext=${"cycle " + (pinned ?? newest)} onInput=${(event) => pin(Number(event.target.value))} /></label>
      <output class="cycle">${shown ?? pinned ?? newest}</output>
      <button aria-pressed=${String(pinned == null)} onClick=${() => pin(null)}>Newest</button>
    </div>
    <p class=${isGone ? "warn" : "quiet"}>${isGone ? `Cycle ${pinned} is no longer kept; what you see was read while it was. ` : ""}
      Cycles ${oldest} to ${newest} can be read: ${count(store.versions)} versions of at most ${count(store.versions_max)} (<code>retain_versions</code>).</p>
  </div>`;
};

export const Store = ({ name }) => {
  const [store, setStore] = useState(null);
  const [seen, setSeen] = useState(null);
  const [problem, setProblem] = useState(null);
  const [pinned, setPinned] = useState(null);
  const [area, setArea] = useState(null);
  const [share, setShare] = useState([0, BARS]);
  const columns = useRef(null);
  useEffect(() => {
    const control = new AbortController();
    const { signal } = control;
    let timer, isRead = false;
    const again = async () => {
      const start = performance.now();
      try {
        columns.current ??= await described(name, signal);
        const found = (await stores(signal)).find((store) => store.name === name);
        if (signal.aborted) return;
        if (!found) throw new Error(`No materialized view ${name} runs.`);
        const now = { ...found, columns: columns.current };
        setStore(now);
        // An earlier cycle stays as it is: it is read once.
        if (now.cycles && !(isRead && pinned != null) && !document.hidden) {
          const read = await look(now, pinned ?? now.cycles[1], area, share, signal);
          if (signal.aborted) return;
          setSeen(read);
          isRead = true;
        }
        setProblem(null);
      } catch (error) {
        if (!signal.aborted) setProblem(error.message);
      }
      // A store that takes long to look at is looked at more seldom.
      if (!signal.aborted) timer = setTimeout(again, Math.max(1000, 3 * (performance.now() - start)));
    };
    timer = setTimeout(again, seen ? 60 : 0);
    return () => { control.abort(); clearTimeout(timer); };
  }, [name, pinned, area, share]);
  const edit = () => { offer(seen.statement); location.hash = "#/editor"; };
  return html`<h1 tabindex="-1">${name}</h1>
    ${problem && html`<p class="panel bad" role="alert">${problem}</p>`}
    ${!store && !problem && html`<p class="quiet">Asking the server…</p>`}
    ${store && html`<${Cycles} store=${store} shown=${seen?.cycle} pinned=${pinned} pin=${setPinned} />`}
    ${seen && html`
      <dl class="numbers">
        <div><dt>rows as of cycle ${seen.cycle}</dt><dd>${count(seen.total)}</dd></div>
        <div><dt>memory</dt><dd>${bytes(store.bytes)}</dd></div>
        <div><dt>rows dropped</dt><dd>${count(store.rows_dropped)}</dd></div>
        ${store.key?.length > 0 && html`<div><dt>key</dt><dd>${store.key.join(", ")}</dd></div>`}
      </dl>
      ${seen.map && html`<h2>By place</h2>
        <${PlaceMap} ...${seen.map} names=${store.point} label=${`${name} as of cycle ${seen.cycle}`} area=${area} setArea=${setArea} />`}
      ${seen.time && html`<h2>By time</h2>
        <${Bars} time=${seen.time} isTime=${isMoment(store)} share=${share} setShare=${setShare} />`}
      <h2>Rows</h2>
      <div class="tools"><button onClick=${edit}>Open in the editor</button><code class="long">${seen.statement}</code></div>
      <${Rows} isBounded=${true} ...${seen.answer} caption=${`${store.time ? "the newest" : "the first"} ${seen.answer.rows.length} rows`
        + (area || share[0] > 0 || share[1] < BARS ? " of what is chosen above" : "") + `, as of cycle ${seen.cycle}`} />`}`;
};
