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

// The one part that limits a query, and why; null if nothing does.
export const limit = (all) => {
  const query = all[all.length - 1];
  if (!query) return null;
  const sink = [...query.sinks].sort((a, b) => b.cycles_waiting - a.cycles_waiting)[0];
  if (sink && sink.cycles_waiting > 3) {
    return { name: sink.name, why: `The sink has not committed ${sink.cycles_waiting} cycles that it was handed, and holds back the rest` };
  }
  const { parts, busiest } = query.dataflow;
  if (busiest == null) return null;
  const before = all.length > 1 ? all[Math.max(0, all.length - 11)] : null;
  const busy = parts.map((part, index) => (part.busy_ms ?? 0) - (before?.dataflow.parts[index]?.busy_ms ?? 0));
  const sum = busy.reduce((a, b) => a + b, 0);
  const most = sum > 0 ? busy.indexOf(Math.max(...busy)) : busiest;
  const time_ms = query.elapsed_ms - (before?.elapsed_ms ?? 0);
  const share = sum > 0 ? Math.round((100 * busy[most]) / sum) : 0;
  const workers = time_ms > 0 ? (sum / time_ms).toFixed(2) : "0";
  return { index: most, name: parts[most].name, why: `It does ${share} % of the work of transforms and operators, which keep ${workers} cores busy` };
};
