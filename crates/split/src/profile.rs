//! The real costs of splitting, measured on batches of the stream itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::{panic, thread};

use tidemill_core::Batch;

use crate::cost::{LatticeCosts, Proportions, RouterCosts, SplitterCosts};
use crate::placement::Placement;
use crate::profile_fit::fit;
use crate::route::{BROADCAST, OMIT, Route, RouteError};
use crate::split::{Share, Splitter};

/// The costs of splitting one stream by one routing function on this machine.
///
/// The cost of a row, whatever becomes of it, is `cc`: taking it in and routing it, plus the extra cost of broadcast
/// rows. For each copy, `cp` is the cost of finding its place, and `ce` of writing it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitProfile {
    /// The costs of a splitter.
    pub splitter: SplitterCosts,
    /// The costs of passing on a window.
    pub router: RouterCosts,
    /// The shares of rows that are routed, broadcast and omitted.
    pub parts: Proportions,
    /// The cost of the query per event that a partition receives; 0 if unknown.
    pub query_ns: f64,
}

/// How often each thread measures each item. The median counts: the shortest time would be that of a machine that does
/// nothing else, which never occurs.
const ROUNDS: usize = 5;

/// The number of rows whose copies are kept: those of one full cycle that is being split, and of one that the
/// partitions are processing.
const KEPT_ROWS: usize = 2 * 32_768;

/// The most copies that are written while costs are measured: 32 MiB with 64 bytes each.
const COPIES_MAX: f64 = 524_288.0;

/// The number of outputs of the narrowest splitter, which is the first one of a tree.
const NARROW: u32 = 2;

/// Measures splitting samples to this many partitions, with the given columns, on this many threads at once. Use as
/// many threads as split in the run, minus those that keep splitting during the measurement. Several samples that
/// together are larger than the caches represent a stream.
///
/// `clock` returns the time in nanoseconds; it does not influence the results of the split.
///
/// # Errors
/// If the routing function names a partition that does not exist.
///
/// # Panics
/// If the routing function does.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{RecordBatch, UInt32Array, types::UInt32Type};
/// use tidemill_core::Batch;
/// use tidemill_split::{profile::profile, route_by_value};
/// let columns = [("xway", Arc::new(UInt32Array::from(vec![0, 3, 1, 2])) as _)];
/// let sample = Batch::from_source(RecordBatch::try_from_iter(columns).unwrap(), (0..4).collect());
/// let start = std::time::Instant::now();
/// let clock = || start.elapsed().as_nanos() as u64;
/// let profile = profile(&[sample], &route_by_value::<UInt32Type>(0).into(), 4, &[0], 2, &clock)?;
/// assert_eq!(profile.parts.routed(), 1.0);
/// # Ok::<(), tidemill_split::RouteError>(())
/// ```
pub fn profile(
    samples: &[Batch],
    route: &Arc<Route>,
    partitions: u32,
    columns: &[usize],
    threads: u32,
    clock: &(dyn Fn() -> u64 + Sync),
) -> Result<SplitProfile, RouteError> {
    let parts = proportions(samples, route);
    // What is all broadcast is one batch for all, not copied.
    let written = if parts.broadcast() == 1.0 { 1.0 } else { parts.written(partitions, partitions) };
    let samples = &within_limit(samples, written)[..];
    let rounds = on_threads(threads, || rounds(samples, route, partitions, columns, clock))?;
    let rows = samples.iter().map(Batch::len).sum::<usize>().max(1) as f64;
    let typical = |what: fn(&Round) -> u64| median(rounds.iter().map(what)) / rows;
    let (route_ns, window_ns) = (typical(|round| round.route_ns), typical(|round| round.window_ns));
    let (omitted, copies) = (parts.omitted(), parts.written(partitions, partitions));

    let place_ns = (typical(|round| round.place_ns) - route_ns).max(0.0) / (omitted + copies);
    let narrow_ns = typical(|round| round.narrow_ns) - place_ns * omitted;
    let wide_ns = typical(|round| round.wide_ns) - place_ns * omitted;
    let narrow_copies = parts.written(partitions.min(NARROW), partitions);
    let (consume_ns, copy_ns) = fit(route_ns + window_ns, [(narrow_copies, narrow_ns), (copies, wide_ns)]);
    let process_ns = if copies > 0.0 { place_ns.min(copy_ns) } else { place_ns };
    let splitter = SplitterCosts { consume_ns, process_ns, emit_ns: (copy_ns - process_ns).max(0.0) };
    let emit_ns = window_ns * rows / samples.len().max(1) as f64;
    let router = RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns };
    Ok(SplitProfile { splitter, router, parts, query_ns: 0.0 })
}

/// How long each item took once, for all samples.
struct Round {
    route_ns: u64,
    /// Passing on each sample as a window.
    window_ns: u64,
    /// Routing, and finding the places.
    place_ns: u64,
    /// All work of the first splitter of a tree.
    narrow_ns: u64,
    /// All work of a splitter to all partitions.
    wide_ns: u64,
}

/// Measurements of this many threads that begin together.
fn on_threads(
    threads: u32,
    measure: impl Fn() -> Result<Vec<Round>, RouteError> + Sync,
) -> Result<Vec<Round>, RouteError> {
    let measured: Result<Vec<_>, _> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(&measure)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|measured| measured.unwrap_or_else(|cause| panic::resume_unwind(cause))).collect()
    });
    Ok(measured?.into_iter().flatten().collect())
}

fn rounds(
    samples: &[Batch],
    route: &Arc<Route>,
    partitions: u32,
    columns: &[usize],
    clock: &dyn Fn() -> u64,
) -> Result<Vec<Round>, RouteError> {
    let splitter = |outputs, columns: &[usize]| {
        let placement = Arc::new(Placement::spread(outputs, 1));
        Splitter::of_level(Arc::clone(route), partitions, 1, placement, columns.to_vec())
    };
    let (mut without_columns, mut wide) = (splitter(partitions, &[]), splitter(partitions, columns));
    let mut narrow = splitter(partitions.min(NARROW), columns);
    let mut destinations = Vec::new();
    let mut round = || {
        Ok(Round {
            route_ns: time(clock, || {
                destinations.clear();
                samples.iter().for_each(|sample| route(&sample.rows, &mut destinations));
                Ok(())
            })?,
            window_ns: time(clock, || {
                samples.iter().for_each(|sample| drop(std::hint::black_box(sample.slice(0, sample.len()))));
                Ok(())
            })?,
            place_ns: time(clock, || split_all(samples, &mut without_columns))?,
            narrow_ns: time(clock, || split_all(samples, &mut narrow))?,
            wide_ns: time(clock, || split_all(samples, &mut wide))?,
        })
    };
    (0..ROUNDS).map(|_| round()).collect()
}

/// How long something takes, without releasing its results.
fn time<R>(clock: &dyn Fn() -> u64, what: impl FnOnce() -> Result<R, RouteError>) -> Result<u64, RouteError> {
    let start_ns = clock();
    let results = what()?;
    let time_ns = clock().saturating_sub(start_ns);
    drop(results);
    Ok(time_ns)
}

fn median(values: impl Iterator<Item = u64>) -> f64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2] as f64
}

/// How many rows were split, and what became of them.
type Kept = (usize, Vec<Share>);

/// Split rows are kept for as many rows as in the run, where they wait until the partitions have taken them.
fn split_all(samples: &[Batch], splitter: &mut Splitter) -> Result<VecDeque<Kept>, RouteError> {
    let mut kept = VecDeque::new();
    let mut kept_rows = 0;
    for sample in samples {
        kept.push_back((sample.len(), splitter.split(sample, 0)?));
        kept_rows += sample.len();
        while kept_rows > KEPT_ROWS && kept.len() > 1 {
            kept_rows -= kept.pop_front().map_or(0, |(rows, _)| rows);
        }
    }
    Ok(kept)
}

fn proportions(samples: &[Batch], route: &Arc<Route>) -> Proportions {
    let mut destinations = Vec::new();
    samples.iter().for_each(|sample| route(&sample.rows, &mut destinations));
    let count = |wanted| destinations.iter().filter(|destination| **destination == wanted).count() as u64;
    let (broadcast, omitted) = (count(BROADCAST), count(OMIT));
    Proportions::counted(destinations.len() as u64 - broadcast - omitted, broadcast, omitted)
}

/// As many rows as can be kept with all their copies, but at least one.
fn within_limit(samples: &[Batch], copies_per_row: f64) -> Vec<Batch> {
    let mut room = ((COPIES_MAX / copies_per_row.max(1.0)) as usize).max(1);
    let mut kept = Vec::new();
    for sample in samples {
        let rows = sample.len().min(room);
        kept.push(sample.slice(0, rows));
        room -= rows;
        if room == 0 {
            break;
        }
    }
    kept
}

impl SplitProfile {
    /// The same profile for a query with this cost per event that a partition receives.
    #[must_use]
    pub fn with_query_ns(self, query_ns: f64) -> Self {
        SplitProfile { query_ns, ..self }
    }

    /// What a splitter to all of this many partitions costs per event, in nanoseconds: one of a lattice, or the only one.
    ///
    /// ```
    /// use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
    /// use tidemill_split::profile::SplitProfile;
    /// let profile = SplitProfile {
    ///     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
    ///     router: RouterCosts::default(),
    ///     parts: Proportions::broadcast_part(0.5).unwrap(),
    ///     query_ns: 0.0,
    /// };
    /// // With 64 partitions, broadcast rows are written once for all of them.
    /// assert_eq!((profile.whole_split_ns(2), profile.whole_split_ns(64)), (14.0, 10.0));
    /// ```
    pub fn whole_split_ns(&self, partitions: u32) -> f64 {
        if self.parts.are_shared(partitions) {
            self.splitter.shared_fsplit(self.parts)
        } else {
            self.splitter.fsplit(self.parts, partitions)
        }
    }

    /// The same costs as those of a lattice. Its query processors have nothing to merge: the rows of several splitters
    /// are in order once they are sorted by window.
    pub fn lattice(&self, window_rows: u32) -> LatticeCosts {
        LatticeCosts {
            router: self.router,
            splitter_read_ns: self.splitter.consume_ns,
            window_rows,
            split_ns: self.splitter.process_ns,
            emit_ns: self.splitter.emit_ns,
            query_ns: self.query_ns,
            ..LatticeCosts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use arrow_array::{RecordBatch, UInt32Array};

    use super::*;

    /// A sample with these destinations, and its routing function.
    fn sample(to: Vec<u32>) -> (Batch, Arc<Route>) {
        let column = Arc::new(UInt32Array::from(to.clone())) as _;
        let rows = RecordBatch::try_from_iter([("to", column)]).unwrap();
        let sample = Batch::from_source(rows, (0..to.len() as u32).collect());
        (sample, Arc::new(move |_: &RecordBatch, out: &mut Vec<u32>| out.extend(&to)))
    }

    #[test]
    fn costs_and_proportions_of_a_sample() {
        let (sample, route) = sample(vec![0, BROADCAST, 1, OMIT, 2, 2, 0, 1, 2, 0]);
        // Each reading of the clock is 100 ns after the last: everything takes 100 ns.
        let now_ns = AtomicU64::new(0);
        let clock = || now_ns.fetch_add(100, Ordering::Relaxed);
        let profile = profile(std::slice::from_ref(&sample), &route, 3, &[0], 1, &clock).unwrap();
        assert_eq!(profile.parts, Proportions::counted(8, 1, 1));
        // Routing and handing on take more than all together: nothing is left for copies.
        assert_eq!(profile.splitter, SplitterCosts { consume_ns: 20.0, process_ns: 0.0, emit_ns: 0.0 });
        assert_eq!(profile.router.emit_ns, 100.0);
        let wrong: Arc<Route> = Arc::new(|_: &RecordBatch, out: &mut Vec<u32>| out.extend([7; 10]));
        assert!(super::profile(&[sample], &wrong, 3, &[0], 1, &clock).is_err());
    }

    #[test]
    fn a_row_and_a_copy_cost_what_the_clock_says() {
        // 1.1 copies per row for 2 outputs, 1.7 for 4; 0.2 of the rows are omitted.
        let (sample, route) = sample([0, BROADCAST, 1, BROADCAST, 0, OMIT, 2, 1, BROADCAST, OMIT].into());
        let costs = |narrow_ns, wide_ns| {
            let takes_ns = [10, 20, 48, narrow_ns, wide_ns];
            // The first two rounds are disturbed.
            let takes_ns = [takes_ns.map(|ns| 7 * ns).repeat(2), takes_ns.repeat(ROUNDS - 2)].concat();
            let readings = AtomicU64::new(0);
            let clock = || {
                let reading = readings.fetch_add(1, Ordering::Relaxed) as usize;
                takes_ns[..reading.div_ceil(2)].iter().sum()
            };
            let SplitterCosts { consume_ns, process_ns, emit_ns } =
                profile(std::slice::from_ref(&sample), &route, 4, &[0], 1, &clock).unwrap().splitter;
            [consume_ns, process_ns, emit_ns].map(|ns| (ns * 1e6).round() / 1e6)
        };
        // Of the 4.8 ns that finding places took 1 is routing: cp = 3.8 / 1.9. 32.4 = cc + 0.2 cp + 1.1 c, and
        // 44.4 = cc + 0.2 cp + 1.7 c.
        assert_eq!(costs(324, 444), [10.0, 2.0, 18.0]);
        // Finding a place is a part of what a copy costs, and so never more.
        assert_eq!(costs(104, 110), [8.9, 1.0, 0.0]);
    }

    #[test]
    fn samples_are_cut_short_for_copies_that_are_written() {
        let rows_seen = |to: Vec<u32>| {
            let (sample, _) = sample(to.clone());
            let least = Arc::new(AtomicU64::new(u64::MAX));
            let seen = Arc::clone(&least);
            let route: Arc<Route> = Arc::new(move |rows: &RecordBatch, out: &mut Vec<u32>| {
                seen.fetch_min(rows.num_rows() as u64, Ordering::Relaxed);
                out.extend(&to[..rows.num_rows()]);
            });
            profile(&[sample], &route, 64, &[0], 1, &|| 0).unwrap();
            least.load(Ordering::Relaxed)
        };
        // Shared rows are written once, like those that are all broadcast.
        assert_eq!(rows_seen([0, BROADCAST].repeat(10_000)), 20_000);
        assert_eq!(rows_seen(vec![BROADCAST; 600_000]), COPIES_MAX as u64);
        // 1.63 copies per row.
        let few = [vec![0; 99], vec![BROADCAST]].concat();
        assert_eq!(rows_seen(few.repeat(4000)), (COPIES_MAX / 1.63) as u64);
    }

    #[test]
    fn all_threads_measure() {
        let (sample, route) = sample(vec![0, 1, 0, 1]);
        let readings = AtomicU64::new(0);
        let clock = || readings.fetch_add(1, Ordering::Relaxed);
        let of_threads = |threads| {
            profile(std::slice::from_ref(&sample), &route, 2, &[0], threads, &clock).unwrap();
            readings.swap(0, Ordering::Relaxed)
        };
        assert_eq!((of_threads(3), of_threads(1)), (3 * of_threads(0), of_threads(0)));
    }

    #[test]
    #[should_panic = "a routing function's own words"]
    fn a_panic_of_the_routing_function_is_its_callers() {
        let (sample, _) = sample(vec![0]);
        let asked = AtomicU64::new(0);
        let route: Arc<Route> = Arc::new(move |_: &RecordBatch, out: &mut Vec<u32>| {
            assert!(asked.fetch_add(1, Ordering::Relaxed) == 0, "a routing function's own words");
            out.push(0);
        });
        let _ = profile(&[sample], &route, 1, &[0], 2, &|| 0);
    }
}
