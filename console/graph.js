// The dataflow of a query as a drawing: each part to the right of those that it reads from.

import { html } from "./vendor/htm-preact.js";
import { bytes, count } from "./format.js";

const WIDTH = 196, HEIGHT = 58, GAP_X = 42, GAP_Y = 24, EDGE = 18;

const layout = ({ parts, edges }) => {
  const depth = parts.map(() => 0);
  // Readers come after those that they read from, so one pass is enough.
  for (const [from, to] of [...edges].sort((a, b) => a[1] - b[1])) depth[to] = Math.max(depth[to], depth[from] + 1);
  const filled = [];
  return parts.map((_, index) => {
    const column = depth[index];
    const row = (filled[column] = (filled[column] ?? -1) + 1);
    return { x: EDGE + column * (WIDTH + GAP_X), y: EDGE + row * (HEIGHT + GAP_Y) };
  });
};

const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

export const Graph = ({ dataflow, limit }) => {
  const places = layout(dataflow);
  const width = Math.max(...places.map((place) => place.x), 0) + WIDTH + EDGE;
  const height = Math.max(...places.map((place) => place.y), 0) + HEIGHT + EDGE;
  const sum = dataflow.parts.reduce((all, part) => all + (part.busy_ms ?? 0), 0);
  const told = (part) => {
    if (part.busy_ms == null) return part.kind;
    const share = sum > 0 ? Math.round((100 * part.busy_ms) / sum) : 0;
    return `${count(part.rows_in)} in, ${count(part.rows_out)} out, ${share} %`;
  };
  // What it holds in memory, behind its name.
  const title = (part) => {
    return part.state_bytes ? `${part.name}: its state takes about ${bytes(part.state_bytes)}` : part.name;
  };
  const label = "Dataflow: " + dataflow.parts.map((part) => `${part.kind} ${part.name}`).join(", then ");
  return html`<div class="panel wide" tabindex="0" role="region" aria-label="Dataflow, can be scrolled">
    <svg class="graph" role="img" aria-label=${label} width=${width} height=${height} viewBox="0 0 ${width} ${height}">
      ${dataflow.edges.map(([from, to]) => {
        const [a, b] = [places[from], places[to]];
        const [x1, y1, x2, y2] = [a.x + WIDTH, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2];
        return html`<path class=${limit?.isLimit && limit.index === to ? "pressed" : ""} d="M${x1} ${y1} C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}" />`;
      })}
      ${dataflow.parts.map((part, index) => {
        const { x, y } = places[index];
        const isMarked = limit?.index === index;
        return html`<g class=${isMarked ? (limit.isLimit ? "limiting" : "busiest") : ""}>
          <title>${title(part)}</title>
          <rect x=${x} y=${y} width=${WIDTH} height=${HEIGHT} rx="8" />
          <text x=${x + 10} y=${y + 22}>${short(part.name, 23)}</text>
          <text class="quiet" x=${x + 10} y=${y + 43}>${told(part)}</text>
          ${isMarked && html`<text class="tag" x=${x + WIDTH - 8} y=${y - 5} text-anchor="end">${limit.isLimit ? "limits the query" : "the most work"}</text>`}
        </g>`;
      })}
    </svg>
  </div>`;
};
