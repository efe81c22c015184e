//! What splitting really costs, measured on a batch of the stream itself.

use std::collections::VecDeque;
use std::sync::Arc;

use tidemill_core::Batch;

use crate::cost::{LatticeCosts, Proportions, RouterCosts, SplitterCosts};
use crate::placement::Placement;
use crate::route::{BROADCAST, OMIT, Route, RouteError};
use crate::split::{Share, Splitter};

/// The costs of splitting one stream by one routing function on this machine.
///
/// A batch is routed once, whatever comes of its rows: taking it in and routing is what a row costs, `cc`.
/// Of each copy, putting it in its place is `cp`, and writing it `ce`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitProfile {
    /// Of a splitter.
    pub splitter: SplitterCosts,
    /// Of handing on a window.
    pub router: RouterCosts,
    /// Which part of the rows is routed, broadcast, omitted.
    pub parts: Proportions,
    /// What the query costs per event that a partition is given; 0 if no one knows.
    pub query_ns: f64,
}

/// How often each thing is measured. The median counts: the shortest time is that of a machine which does nothing else,
/// and so it never is.
const ROUNDS: usize = 5;

/// The rows of a full cycle.
const CYCLE_ROWS: usize = 32_768;

/// The most copies that are written while costs are measured; with 64 bytes each, 32 MiB.
const COPIES_MAX: f64 = 524_288.0;

/// Measures the splitting of samples to so many partitions, with these of their columns. Several samples, which
/// together are larger than the caches, are what a stream is.
///
/// `clock` gives the time in nanoseconds; it does nothing to what the split gives.
///
/// # Errors
/// If the routing function names a partition that does not exist.
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
/// let profile = profile(&[sample], &route_by_value::<UInt32Type>(0).into(), 4, &[0], &clock)?;
/// assert_eq!(profile.parts.routed(), 1.0);
/// # Ok::<(), tidemill_split::RouteError>(())
/// ```
pub fn profile(
    samples: &[Batch],
    route: &Arc<Route>,
    partitions: u32,
    columns: &[usize],
    clock: &dyn Fn() -> u64,
) -> Result<SplitProfile, RouteError> {
    let placement = Arc::new(Placement::spread(partitions, 1));
    let splitter = |columns| Splitter::new(Arc::clone(route), Arc::clone(&placement), columns);
    let mut without_columns = splitter(Vec::new());
    let mut with_columns = splitter(columns.to_vec());

    let parts = proportions(samples, route);
    let samples = &within_limit(samples, parts.copies(partitions));
    let mut destinations = Vec::new();
    let route_ns = typical(clock, || {
        destinations.clear();
        samples.iter().for_each(|sample| route(&sample.rows, &mut destinations));
        Ok(VecDeque::new())
    })?;
    let place_ns = typical(clock, || split_all(samples, &mut without_columns))?;
    let all_ns = typical(clock, || split_all(samples, &mut with_columns))?;
    let window_ns = typical(clock, || {
        samples.iter().for_each(|sample| drop(std::hint::black_box(sample.slice(0, sample.len()))));
        Ok(VecDeque::new())
    })?;

    let rows = samples.iter().map(Batch::len).sum::<usize>().max(1) as f64;
    let copies = parts.copies(partitions) * rows;
    let splitter = SplitterCosts {
        consume_ns: (route_ns + window_ns) / rows,
        process_ns: (place_ns - route_ns).max(0.0) / (copies + parts.omitted() * rows),
        emit_ns: if copies > 0.0 { (all_ns - place_ns).max(0.0) / copies } else { 0.0 },
    };
    let emit_ns = window_ns / samples.len().max(1) as f64;
    let router = RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns };
    Ok(SplitProfile { splitter, router, parts, query_ns: 0.0 })
}

/// How many rows were split, and what they have become.
type Kept = (usize, Vec<Share>);

/// What is split is kept for as many rows as a cycle has, as it is until the partitions have taken it.
fn split_all(samples: &[Batch], splitter: &mut Splitter) -> Result<VecDeque<Kept>, RouteError> {
    let mut kept = VecDeque::new();
    let mut kept_rows = 0;
    for sample in samples {
        kept.push_back((sample.len(), splitter.split(sample, 0)?));
        kept_rows += sample.len();
        while kept_rows > CYCLE_ROWS && kept.len() > 1 {
            kept_rows -= kept.pop_front().map_or(0, |(rows, _)| rows);
        }
    }
    Ok(kept)
}

/// The median time of a round, without that of giving its results back.
fn typical(
    clock: &dyn Fn() -> u64,
    mut what: impl FnMut() -> Result<VecDeque<Kept>, RouteError>,
) -> Result<f64, RouteError> {
    let mut times_ns = [0; ROUNDS];
    for time_ns in &mut times_ns {
        let start_ns = clock();
        let results = what()?;
        *time_ns = clock().saturating_sub(start_ns);
        drop(results);
    }
    times_ns.sort_unstable();
    Ok(times_ns[ROUNDS / 2] as f64)
}

fn proportions(samples: &[Batch], route: &Arc<Route>) -> Proportions {
    let mut destinations = Vec::new();
    samples.iter().for_each(|sample| route(&sample.rows, &mut destinations));
    let count = |wanted| destinations.iter().filter(|destination| **destination == wanted).count() as u64;
    let (broadcast, omitted) = (count(BROADCAST), count(OMIT));
    Proportions::counted(destinations.len() as u64 - broadcast - omitted, broadcast, omitted)
}

/// As many rows, but at least one, as make so many copies that they can be kept.
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
    /// The same for a query that costs so much per event that a partition is given.
    #[must_use]
    pub fn with_query_ns(self, query_ns: f64) -> Self {
        SplitProfile { query_ns, ..self }
    }

    /// The same as costs of a lattice. Its query processors have nothing to merge: what several splitters send
    /// is in order once it is sorted by window.
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
    use std::cell::Cell;

    use arrow_array::{RecordBatch, UInt32Array};

    use super::*;

    #[test]
    fn costs_and_proportions_of_a_sample() {
        let to = vec![0, BROADCAST, 1, OMIT, 2, 2, 0, 1, 2, 0];
        let column = Arc::new(UInt32Array::from(to.clone())) as _;
        let rows = RecordBatch::try_from_iter([("to", column)]).unwrap();
        let sample = Batch::from_source(rows, (0..10).collect());
        let route: Arc<Route> = Arc::new(move |_: &RecordBatch, out: &mut Vec<u32>| out.extend(&to));
        // Each reading of the clock is 100 ns after the last: everything takes 100 ns.
        let now = Cell::new(0);
        let clock = || now.replace(now.get() + 100);
        let profile = profile(std::slice::from_ref(&sample), &route, 3, &[0], &clock).unwrap();
        assert_eq!(profile.parts, Proportions::counted(8, 1, 1));
        assert_eq!(profile.splitter, SplitterCosts { consume_ns: 20.0, process_ns: 0.0, emit_ns: 0.0 });
        assert_eq!(profile.router.emit_ns, 100.0);
        let wrong: Arc<Route> = Arc::new(|_: &RecordBatch, out: &mut Vec<u32>| out.extend([7; 10]));
        assert!(super::profile(&[sample], &wrong, 3, &[0], &clock).is_err());
    }
}
