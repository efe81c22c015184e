// How many rows are where: cells of a map.

export const COLUMNS = 96, LINES = 60, POINTS_MAX = 3000;

// A box with some room; one point has a box, too.
export const roomy = ([x0, x1, y0, y1]) => {
  const room = (from, to) => Math.max((to - from) * 0.02, Math.abs(from) * 1e-9, from === to ? 0.5 : Number.MIN_VALUE);
  return [x0 - room(x0, x1), x1 + room(x0, x1), y0 - room(y0, y1), y1 + room(y0, y1)];
};

// Points of an answer: those that are in the area, counted by cell.
export const counted = (points, area) => {
  const placed = points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && x != null && y != null);
  let box = area;
  if (!box) {
    const wide = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of placed) {
      wide[0] = Math.min(wide[0], x); wide[1] = Math.max(wide[1], x);
      wide[2] = Math.min(wide[2], y); wide[3] = Math.max(wide[3], y);
    }
    box = placed.length ? roomy(wide) : null;
  }
  const cells = new Map();
  const inside = box ? placed.filter(([x, y]) => x >= box[0] && x <= box[1] && y >= box[2] && y <= box[3]) : [];
  for (const [x, y] of inside) {
    const i = Math.min(COLUMNS - 1, Math.floor(((x - box[0]) / (box[1] - box[0])) * COLUMNS));
    const j = Math.min(LINES - 1, Math.floor(((y - box[2]) / (box[3] - box[2])) * LINES));
    cells.set(j * COLUMNS + i, (cells.get(j * COLUMNS + i) ?? 0) + 1);
  }
  return {
    box, cells: [...cells].map(([at, n]) => [at % COLUMNS, Math.floor(at / COLUMNS), n]),
    points: inside.length <= POINTS_MAX ? inside : null, rows: inside.length, unplaced: points.length - placed.length,
  };
};
