// Rows as a table.

import { html } from "./vendor/htm-preact.js";

const SHOWN = 500;
export const NUMBERS = /^(smallint|integer|bigint|real|double precision|numeric)$/;
export const TIMES = /^(timestamp|date)/;

const told = (rows) => {
  if (rows.length > SHOWN) return `the first ${SHOWN} of ${rows.length} rows`;
  return rows.length === 1 ? "1 row" : rows.length + " rows";
};

export const Rows = ({ columns, rows, caption, isBounded }) => {
  const kind = (index) => (NUMBERS.test(columns[index].type) ? "" : " text");
  return html`<div class=${isBounded ? "wide bounded" : "wide"} tabindex="0" role="region" aria-label="Rows, can be scrolled"><table>
    <caption>${caption ?? told(rows)}</caption>
    <thead><tr>${columns.map((column, index) => html`<th scope="col" title=${column.type} class=${"long" + kind(index)}>
      ${column.name}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, SHOWN).map((row) => html`<tr>${row.map((value, index) => value == null
      ? html`<td class=${"null" + kind(index)}>NULL</td>`
      : html`<td class=${"long" + kind(index)} title=${value.length > 60 ? value : undefined}>${value}</td>`)}</tr>`)}</tbody>
  </table></div>`;
};
