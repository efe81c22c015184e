// Rows in space: each cell has the colour of how many rows are in it, and few rows are drawn as points.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { color } from "./colors.js";
import { count } from "./format.js";
import { COLUMNS, LINES } from "./places.js";

const LEFT = 62, BOTTOM = 26, TOP = 10, RIGHT = 12, STEPS = 5;

const short = (value) => String(Number(value.toPrecision(4)));

// Round numbers between two others, a handful of them.
const ticks = (from, to, most) => {
  const step = 10 ** Math.floor(Math.log10((to - from) / most));
  const wide = [1, 2, 5, 10].map((by) => by * step).find((by) => (to - from) / by <= most);
  const all = [];
  for (let at = Math.ceil(from / wide); at * wide <= to && all.length < 50; at++) all.push(at * wide);
  return all;
};

const shade = (n, most) => (most <= 1 ? STEPS - 2 : Math.min(STEPS - 1, Math.floor((Math.log(n) / Math.log(most)) * STEPS)));

const draw = (canvas, { box, cells, points, names, drag }) => {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const [w, h] = [width - LEFT - RIGHT, height - TOP - BOTTOM];
  pen.fillStyle = color("--field");
  pen.fillRect(LEFT, TOP, w, h);
  if (!box) return;
  const across = (x) => LEFT + ((x - box[0]) / (box[1] - box[0])) * w;
  const up = (y) => TOP + h - ((y - box[2]) / (box[3] - box[2])) * h;
  pen.font = "12px system-ui, sans-serif";
  pen.strokeStyle = color("--line");
  pen.fillStyle = color("--quiet");
  pen.lineWidth = 1;
  const line = (x1, y1, x2, y2) => { pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); };
  pen.textAlign = "center";
  for (const x of ticks(box[0], box[1], Math.max(2, w / 90))) {
    line(across(x), TOP, across(x), TOP + h);
    pen.fillText(short(x), across(x), height - 8);
  }
  pen.textAlign = "right";
  for (const y of ticks(box[2], box[3], Math.max(2, h / 50))) {
    line(LEFT, up(y), LEFT + w, up(y));
    pen.fillText(short(y), LEFT - 6, up(y) + 4);
  }
  const most = Math.max(1, ...cells.map(([, , n]) => n));
  const [cellWidth, cellHeight] = [w / COLUMNS, h / LINES];
  const colors = Array.from({ length: STEPS }, (_, index) => color("--density-" + (index + 1)));
  if (points) {
    pen.fillStyle = color("--stroke");
    pen.globalAlpha = points.length > 600 ? 0.55 : 0.85;
    const size = points.length > 600 ? 1.6 : 2.6;
    for (const [x, y] of points) { pen.beginPath(); pen.arc(across(x), up(y), size, 0, 7); pen.fill(); }
    pen.globalAlpha = 1;
  } else {
    for (const [i, j, n] of cells) {
      pen.fillStyle = colors[shade(n, most)];
      pen.fillRect(LEFT + i * cellWidth, TOP + h - (j + 1) * cellHeight, cellWidth + 0.6, cellHeight + 0.6);
    }
  }
  if (drag) {
    pen.strokeStyle = color("--mark");
    pen.strokeRect(drag[0], drag[1], drag[2] - drag[0], drag[3] - drag[1]);
  }
};

const Legend = ({ cells, points }) => {
  const most = Math.max(1, ...cells.map(([, , n]) => n));
  if (points) return html`<span class="quiet">each point is a row</span>`;
  return html`<span class="legend quiet">1 <span class="ramp" aria-hidden="true">${[1, 2, 3, 4, 5].map((step) =>
    html`<i class=${"density-" + step}></i>`)}</span> ${count(most)} rows in a cell</span>`;
};

// `area` is what is looked at: [x from, x to, y from, y to], or null for everything.
export const PlaceMap = ({ box, cells, points, rows, unplaced, names, label, area, setArea }) => {
  const canvas = useRef();
  const [drag, setDrag] = useState(null);
  const [under, setUnder] = useState("");
  const drawn = { box, cells, points, names, drag };
  const latest = useRef();
  latest.current = drawn;
  useEffect(() => { draw(canvas.current, drawn); });
  useEffect(() => {
    const again = () => canvas.current && draw(canvas.current, latest.current);
    const light = matchMedia("(prefers-color-scheme: light)");
    light.addEventListener("change", again);
    addEventListener("resize", again);
    return () => { light.removeEventListener("change", again); removeEventListener("resize", again); };
  }, []);
  const place = (event) => {
    const frame = canvas.current.getBoundingClientRect();
    const x = Math.min(Math.max(event.clientX - frame.left, LEFT), frame.width - RIGHT);
    const y = Math.min(Math.max(event.clientY - frame.top, TOP), frame.height - BOTTOM);
    return [x, y];
  };
  const share = ([x, y]) => {
    const { clientWidth, clientHeight } = canvas.current;
    return [(x - LEFT) / (clientWidth - LEFT - RIGHT), 1 - (y - TOP) / (clientHeight - TOP - BOTTOM)];
  };
  const value = ([i, j]) => [box[0] + i * (box[1] - box[0]), box[2] + j * (box[3] - box[2])];
  const down = (event) => {
    if (!box || event.button !== 0 || event.pointerType === "touch") return;
    canvas.current.setPointerCapture(event.pointerId);
    setDrag([...place(event), ...place(event)]);
  };
  const over = (event) => {
    if (!box) return;
    const at = place(event);
    if (drag) return setDrag([drag[0], drag[1], ...at]);
    const [i, j] = share(at);
    const [column, line] = [Math.min(COLUMNS - 1, Math.floor(i * COLUMNS)), Math.min(LINES - 1, Math.floor(j * LINES))];
    const n = cells.find(([a, b]) => a === column && b === line)?.[2] ?? 0;
    const [x, y] = value([i, j]);
    setUnder(`${names[0]} ${short(x)}, ${names[1]} ${short(y)}: ${n === 1 ? "1 row" : count(n) + " rows"} in the cell`);
  };
  const release = () => {
    if (!drag) return;
    setDrag(null);
    const [x1, y1, x2, y2] = drag;
    if (Math.abs(x2 - x1) < 6 || Math.abs(y2 - y1) < 6) return;
    const [a, b] = [value(share([x1, y1])), value(share([x2, y2]))];
    setArea([Math.min(a[0], b[0]), Math.max(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[1], b[1])]);
  };
  // The area moved by shares of itself, and made larger or smaller around its middle.
  const change = (right, up, by) => {
    if (!box) return;
    const [x, y] = [(box[0] + box[1]) / 2 + right * (box[1] - box[0]), (box[2] + box[3]) / 2 + up * (box[3] - box[2])];
    const [half_x, half_y] = [((box[1] - box[0]) / 2) * by, ((box[3] - box[2]) / 2) * by];
    const next = [x - half_x, x + half_x, y - half_y, y + half_y];
    if (next.every(Number.isFinite) && half_x > Math.abs(x) * 1e-12 && half_y > Math.abs(y) * 1e-12) setArea(next);
  };
  const KEYS = {
    ArrowLeft: [-0.25, 0, 1], ArrowRight: [0.25, 0, 1], ArrowUp: [0, 0.25, 1], ArrowDown: [0, -0.25, 1],
    "+": [0, 0, 0.5], "=": [0, 0, 0.5], "-": [0, 0, 2],
  };
  const keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "0") setArea(null);
    else if (KEYS[event.key]) change(...KEYS[event.key]);
    else return;
    event.preventDefault();
  };
  const told = box
    ? `Map of ${label}: ${rows} rows, ${names[0]} from ${short(box[0])} to ${short(box[1])}, ${names[1]} from ${short(box[2])} to ${short(box[3])}`
    : `Map of ${label}: no rows with a place`;
  return html`<div class="panel map">
    <div tabindex="0" role="group" aria-label="Map: arrow keys move, plus and minus zoom, 0 shows everything" onKeyDown=${keys}>
      <canvas ref=${canvas} role="img" aria-label=${told} onPointerDown=${down} onPointerMove=${over} onPointerUp=${release}
        onPointerCancel=${() => setDrag(null)} onPointerLeave=${() => setUnder("")}></canvas>
    </div>
    <div class="tools">
      <button aria-label="Zoom in" onClick=${() => change(0, 0, 0.5)}>+</button>
      <button aria-label="Zoom out" onClick=${() => change(0, 0, 2)}>−</button>
      <button onClick=${() => setArea(null)} disabled=${!area}>Everything</button>
      <${Legend} cells=${cells} points=${points} />
      <span class="quiet under">${under || (box ? "drag to zoom" : "There are no rows with a place.")}</span>
      ${unplaced > 0 && html`<span class="warn">${count(unplaced)} rows without a place are not shown</span>`}
    </div>
  </div>`;
};
