// Numbers for people.

export const count = (n) => {
  if (n == null) return "–";
  if (n < 9999.5) return String(Math.round(n));
  for (const [bound, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (n >= bound * 0.9995) return (n / bound).toPrecision(3).replace(/e.*/, "") + " " + unit;
  }
  return String(Math.round(n));
};

export const ms = (t) => {
  if (t == null) return "–";
  if (t === 0) return "0";
  if (t < 1) return Math.round(t * 1000) + " µs";
  if (t < 1000) return Number(t.toPrecision(3)) + " ms";
  return Number((t / 1000).toPrecision(3)) + " s";
};

export const bytes = (n) => (n == null ? "–" : count(n) + (n < 9999.5 ? " B" : "B"));

// Rounded down: 99.9999 % is not all of them.
export const percent = (share) => (share == null ? "–" : Math.floor(share * 1e5) / 1e3 + " %");

export const moment = (seconds) =>
  seconds == null ? "–" : new Date(seconds * 1000).toISOString().replace("T", " ").replace(/\.?0*Z$/, "");
