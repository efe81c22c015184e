//! What splitting really costs, measured on a batch of the stream itself.

use std::sync::Arc;

use tidemill_core::Batch;

use crate::cost::{LatticeCosts, Proportions, RouterCosts, SplitterCosts};
use crate::placement::Placement;
use crate::route::{BROADCAST, OMIT, Route, RouteError};
use crate::split::Splitter;

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
}

/// How often each thing is measured; the shortest time counts, for what else the machine does only adds to it.
const ROUNDS: u32 = 5;

/// Measures the splitting of a sample to so many partitions, with all of its columns.
///
/// `clock` gives the time in nanoseconds; it does nothing to what the split gives.
///
/// # Errors
/// If the routing function names a partition that does not exist.
pub fn profile(
    sample: &Batch,
    route: &Arc<Route>,
    partitions: u32,
    clock: &dyn Fn() -> u64,
) -> Result<SplitProfile, RouteError> {
    let placement = Arc::new(Placement::spread(partitions, 1));
    let splitter = |columns| Splitter::new(Arc::clone(route), Arc::clone(&placement), columns);
    let mut without_columns = splitter(Vec::new());
    let mut with_columns = splitter((0..sample.rows.num_columns()).collect());

    let mut destinations = Vec::new();
    let route_ns = shortest(clock, || {
        destinations.clear();
        route(&sample.rows, &mut destinations);
        Ok(())
    })?;
    let place_ns = shortest(clock, || without_columns.split(sample, 0).map(drop))?;
    let all_ns = shortest(clock, || with_columns.split(sample, 0).map(drop))?;
    let window_ns = shortest(clock, || {
        drop(std::hint::black_box(sample.slice(0, sample.len())));
        Ok(())
    })?;

    let parts = proportions(&destinations);
    let (rows, copies) = (sample.len().max(1) as f64, parts.copies(partitions) * sample.len().max(1) as f64);
    let splitter = SplitterCosts {
        consume_ns: (route_ns + window_ns) / rows,
        process_ns: (place_ns - route_ns).max(0.0) / (copies + parts.omitted() * rows),
        emit_ns: if copies > 0.0 { (all_ns - place_ns).max(0.0) / copies } else { 0.0 },
    };
    let router = RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: window_ns };
    Ok(SplitProfile { splitter, router, parts })
}

fn shortest(
    clock: &dyn Fn() -> u64,
    mut what: impl FnMut() -> Result<(), RouteError>,
) -> Result<f64, RouteError> {
    let mut shortest_ns = u64::MAX;
    for _ in 0..ROUNDS {
        let start_ns = clock();
        what()?;
        shortest_ns = shortest_ns.min(clock().saturating_sub(start_ns));
    }
    Ok(shortest_ns as f64)
}

fn proportions(destinations: &[u32]) -> Proportions {
    let count = |wanted| destinations.iter().filter(|destination| **destination == wanted).count() as u64;
    let (broadcast, omitted) = (count(BROADCAST), count(OMIT));
    Proportions::counted(destinations.len() as u64 - broadcast - omitted, broadcast, omitted)
}

impl SplitProfile {
    /// The same as costs of a lattice. Its query processors have nothing to merge: what several splitters send
    /// is in order once it is sorted by window.
    pub fn lattice(&self, window_rows: u32) -> LatticeCosts {
        LatticeCosts {
            router: self.router,
            splitter_read_ns: self.splitter.consume_ns,
            window_rows,
            split_ns: self.splitter.process_ns,
            emit_ns: self.splitter.emit_ns,
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
        let profile = profile(&sample, &route, 3, &clock).unwrap();
        assert_eq!(profile.parts, Proportions::counted(8, 1, 1));
        assert_eq!(profile.splitter, SplitterCosts { consume_ns: 20.0, process_ns: 0.0, emit_ns: 0.0 });
        assert_eq!(profile.router.emit_ns, 100.0);
        let wrong: Arc<Route> = Arc::new(|_: &RecordBatch, out: &mut Vec<u32>| out.extend([7; 10]));
        assert!(super::profile(&sample, &wrong, 3, &clock).is_err());
    }
}
