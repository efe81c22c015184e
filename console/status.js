// The status of the server, asked every second, and what follows from two of them.

const KEPT = 180;

export const history = { looks: [], error: null };
const listeners = new Set();

export const listen = (listener) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

const look = async () => {
  try {
    const answer = await fetch("api/status", { cache: "no-store" });
    if (!answer.ok) throw new Error("the server answers " + answer.status);
    history.looks.push(await answer.json());
    history.looks.splice(0, history.looks.length - KEPT);
    history.error = null;
  } catch (error) {
    history.error = "the server does not answer (" + error.message + ")";
  }
  listeners.forEach((listener) => listener());
};

export const start = async () => {
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((go) => setTimeout(go, 1000));
  }
};

export const last = () => history.looks[history.looks.length - 1];

const named = (status, name) => status?.queries.find((query) => query.name === name);

// The same query in all looks of its present run, oldest first.
export const runs = (name) => {
  const all = [];
  for (const status of history.looks) {
    const query = named(status, name);
    const before = all[all.length - 1];
    if (before && (!query || query.elapsed_ms < before.elapsed_ms)) all.length = 0;
    if (query?.elapsed_ms != null) all.push(query);
  }
  return all;
};

const between = (one, other, key) => {
  const time_ms = other.elapsed_ms - one.elapsed_ms;
  return time_ms > 0 ? ((other[key] - one[key]) * 1000) / time_ms : null;
};

// Rows per second from look to look.
export const rates = (all, key) => all.slice(1).map((query, index) => between(all[index], query, key));

// The bound below which a share of the events between two looks was answered: the upper end of its bucket.
export const quantile = (one, other, share) => {
  const total = other.response.count - one.response.count;
  if (!(total > 0)) return null;
  for (let index = 0; index < other.response.within_ms.length; index++) {
    const [bound_ms, now] = other.response.within_ms[index];
    if (now - one.response.within_ms[index][1] >= total * share) return bound_ms;
  }
  return other.response.max_ms;
};
