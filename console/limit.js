// What limits a query, and why, by its looks of the last seconds. What waits for the culprit is not blamed.

import { count, moment, ms } from "./format.js";

// So many looks, a second apart, are compared.
const WINDOW = 10;
// A sink or an operator that has finished nothing for this long, while something waits for it, holds up the rest.
const STUCK_MS = 2000;
// More cycles than these wait for a sink only if it is slower than what comes before it.
const WAITING = 3;
// A worker that works for this share of the time has no room for more.
const BUSY = 0.7;
// A source that sends nothing for this long is worth a word.
const SILENT_MS = 5000;
// Results wait for a source whose event time is so far behind that of another one.
const BEHIND_S = 5;

// At most all: time of a long cycle is counted at its end, and may have begun before the first look.
const share = (part, whole) => (whole > 0 ? Math.min(100, Math.round((100 * part) / whole)) : 0) + " %";
const sum = (values) => values.reduce((a, b) => a + b, 0);

// The index of a source or sink among the parts.
const partOf = (query, kind, number) => {
  const own = query.dataflow.parts.flatMap((part, index) => (part.kind === kind ? [index] : []));
  return own[number];
};

const stuckSink = (query, recent) => {
  const waits = (sink, number) => Math.min(...recent.slice(-3).map((look) => look.sinks[number]?.cycles_waiting ?? 0));
  const slow = query.sinks
    .map((sink, number) => ({ ...sink, number, least: waits(sink, number) }))
    .filter((sink) => sink.cycles_waiting > 0 && (sink.idle_ms >= STUCK_MS || (recent.length >= 3 && sink.least > WAITING)))
    .sort((a, b) => b.idle_ms - a.idle_ms || b.cycles_waiting - a.cycles_waiting)[0];
  if (!slow) return null;
  const many = slow.cycles_waiting === 1 ? "1 cycle waits" : `${count(slow.cycles_waiting)} cycles wait`;
  return {
    index: partOf(query, "sink", slow.number), name: slow.name, isLimit: true,
    why: slow.idle_ms >= STUCK_MS
      ? `This sink has committed nothing for ${ms(slow.idle_ms)}, while ${many} for it`
      : `Cycles come faster than this sink commits them: ${many} for it`,
  };
};

const stuckOperator = ({ dataflow }) => {
  const longest = dataflow.parts
    .map((part, index) => ({ index, name: part.name, running_ms: part.running_ms ?? 0 }))
    .sort((a, b) => b.running_ms - a.running_ms)[0];
  if (!longest || longest.running_ms < STUCK_MS) return null;
  return { ...longest, isLimit: true, why: `It has been working on one cycle for ${ms(longest.running_ms)}, and the rest waits for that` };
};

// The time of each part, and of each worker, between two looks.
const work = (query, before) => {
  const time_ms = query.elapsed_ms - (before?.elapsed_ms ?? 0);
  const parts = query.dataflow.parts.map((part, index) => {
    const old = before?.dataflow.parts[index];
    return {
      index, name: part.name, partitions: part.partitions, busy_ms: Math.max(0, (part.busy_ms ?? 0) - (old?.busy_ms ?? 0)),
      by_worker_ms: (part.by_worker_ms ?? []).map((now_ms, worker) => Math.max(0, now_ms - (old?.by_worker_ms?.[worker] ?? 0))),
    };
  });
  const workers = Math.max(0, ...parts.map((part) => part.by_worker_ms.length));
  const of_worker = Array.from({ length: workers }, (_, worker) => sum(parts.map((part) => part.by_worker_ms[worker] ?? 0)));
  return { time_ms, parts, of_worker, all_ms: sum(parts.map((part) => part.busy_ms)) };
};

const most = (parts, value) => parts.reduce((best, part) => (value(part) > value(best) ? part : best), parts[0]);

// One worker has all it can do, and the others wait.
const hotPartition = ({ time_ms, parts, of_worker }) => {
  if (of_worker.length < 2) return null;
  const hottest = of_worker.indexOf(Math.max(...of_worker));
  const rest_ms = (sum(of_worker) - of_worker[hottest]) / (of_worker.length - 1);
  if (of_worker[hottest] < BUSY * time_ms || rest_ms > of_worker[hottest] / 2) return null;
  const part = most(parts, (part) => part.by_worker_ms[hottest] ?? 0);
  return {
    index: part.index, name: part.name, isLimit: true,
    why: `One of ${of_worker.length} workers works ${share(of_worker[hottest], time_ms)} of the time, mostly on this part, and the others `
      + `${share(rest_ms, time_ms)}: the rows go to few of its ${part.partitions} partitions`,
  };
};

// The first part that has not finished rows which came seconds ago: they are counted when it is done with them.
const unfinished = ({ lag_ms, sources, dataflow: { parts, edges } }) => {
  if (!(lag_ms >= STUCK_MS)) return null;
  const given = parts.map((part) => part.rows_out ?? 0);
  parts.flatMap((part, index) => (part.kind === "source" ? [index] : [])).forEach((index, number) => { given[index] = sources[number]?.rows ?? 0; });
  const isRead = (index) => edges.some(([from]) => from === index);
  const writes = (index) => edges.filter(([, to]) => to === index).reduce((all, [from]) => all + given[from], 0);
  const index = parts.findIndex((part, index) => part.busy_ms != null && isRead(index) && writes(index) > part.rows_in);
  if (index < 0) return null;
  return {
    index, name: parts[index].name, isLimit: true,
    why: `The oldest rows came ${ms(lag_ms)} ago, and it has ${count(writes(index) - parts[index].rows_in)} rows that it has not finished`,
  };
};

// The source that sends nothing, or whose event time holds back the results of all.
const slowSource = (query, before) => {
  const silent_ms = query.elapsed_ms - (before?.elapsed_ms ?? query.elapsed_ms);
  const open = query.sources.map((source, number) => ({ ...source, number })).filter((source) => !source.ended);
  const named = (source, why) => ({ index: partOf(query, "source", source.number), name: source.name, isLimit: true, why });
  const known = open.filter((source) => source.watermark_s != null).sort((a, b) => a.watermark_s - b.watermark_s);
  const [first, last] = [known[0], known[known.length - 1]];
  if (known.length > 1 && last.watermark_s - first.watermark_s > BEHIND_S) {
    return named(first, `Results wait for this source: it is complete up to ${moment(first.watermark_s)} only, and ${last.name} up to ${moment(last.watermark_s)}`);
  }
  // What is not done yet is not the source's fault.
  if (query.lag_cycles > 0) return null;
  const isSilent = (source) => before && source.rows === before.sources[source.number]?.rows;
  if (silent_ms >= SILENT_MS && open.length > 0 && open.every(isSilent)) {
    const others = open.length > 1 ? ", nor from any other" : "";
    return named(open[0], `No row has come from this source for ${ms(silent_ms)} or longer${others}: there is nothing to do`);
  }
  return null;
};

// The one part that limits a query, and why. If nothing does: the part with the most work, which is not a limit. Null if nothing is
// known yet, or the query does not run.
export const limit = (all) => {
  const query = all[all.length - 1];
  if (!query || !["running", "ending"].includes(query.state)) return null;
  const recent = all.slice(-WINDOW - 1);
  const before = recent.length > 1 ? recent[0] : null;
  const done = work(query, before);
  const found = stuckSink(query, recent) ?? stuckOperator(query) ?? hotPartition(done);
  if (found) return found;
  if (done.parts.length === 0) return null;
  const part = most(done.parts, (part) => part.busy_ms);
  const time_ms = done.time_ms * Math.max(1, query.workers);
  const busy = `It does ${share(part.busy_ms, done.all_ms)} of the work of transforms and operators, with which ${query.workers === 1 ? "the worker is" : `${query.workers} workers are`} busy ${share(done.all_ms, time_ms)} of the time`;
  if (done.all_ms >= BUSY * time_ms) return { index: part.index, name: part.name, isLimit: true, why: busy };
  const other = unfinished(query) ?? slowSource(query, before);
  if (other) return other;
  return done.all_ms > 0 ? { index: part.index, name: part.name, isLimit: false, why: busy } : null;
};
