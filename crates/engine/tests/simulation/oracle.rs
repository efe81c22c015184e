//! The query that is simulated, and what an uninterrupted run of it gives over all rows and cuts.

use std::collections::BTreeSet;

use tidemill_core::Cut;
use tidemill_core::snapshot::Snapshot;

use super::world::Row;
use tidemill_testing::random::Random;

/// A row is late if it is more than this behind the largest time before it.
pub const DELAY_NS: i64 = 10;

/// A row of the result. The value of `order` depends on everything that came before it, and on the cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    pub source: Option<usize>,
    pub id: u64,
    pub is_late: bool,
    pub order: u64,
}

/// The state of the query.
#[derive(Clone, Default)]
pub struct State {
    order: u64,
}

impl State {
    pub fn of(snapshot: &Snapshot) -> State {
        let bytes = &snapshot.operators["order"][&0];
        State { order: u64::from_le_bytes(bytes.as_slice().try_into().unwrap()) }
    }

    pub fn snapshot(&self, cycle: u64) -> Snapshot {
        let bytes = self.order.to_le_bytes().to_vec();
        let operators = [("order".into(), [(0, bytes)].into())].into();
        Snapshot { cycle, operators, ..Snapshot::default() }
    }

    pub fn row(&mut self, source: usize, id: u64, is_late: bool) -> Out {
        self.follow(id * 8 + source as u64 * 2 + u64::from(is_late));
        Out { source: Some(source), id, is_late, order: self.order }
    }

    pub fn end_of_cycle(&mut self, cut: &Cut) -> Out {
        self.follow(cut.cycle);
        self.follow(cut.closed_at_ns);
        cut.watermarks.iter().for_each(|watermark| self.follow(*watermark as u64));
        Out { source: None, id: cut.cycle, is_late: false, order: self.order }
    }

    fn follow(&mut self, value: u64) {
        self.order = Random::new(self.order ^ value).next();
    }
}

/// The results of each cycle, over the rows of each source, which of them are late, and which are skipped.
pub fn expected(
    rows: &[Vec<Row>],
    late: &[Vec<bool>],
    skipped: &[BTreeSet<u64>],
    cuts: &[Cut],
) -> Vec<Vec<Out>> {
    let mut state = State::default();
    let mut positions = vec![0; rows.len()];
    let cycle = |cut: &Cut| {
        let mut results = Vec::new();
        for (source, end) in cut.positions.iter().enumerate() {
            let range = (positions[source]..*end).filter(|at| !skipped[source].contains(at));
            let range = range.map(|at| at as usize);
            results.extend(range.map(|at| state.row(source, rows[source][at].id, late[source][at])));
            positions[source] = *end;
        }
        results.push(state.end_of_cycle(cut));
        results
    };
    cuts.iter().map(cycle).collect()
}

/// No row that is in time is behind what a cut before it says of its source.
pub fn check_watermarks(rows: &[Vec<Row>], late: &[Vec<bool>], cuts: &[Cut]) {
    for cut in cuts {
        for (source, position) in cut.positions.iter().enumerate() {
            let behind = (*position as usize..rows[source].len())
                .find(|at| !late[source][*at] && rows[source][*at].time_ns < cut.watermarks[source]);
            let watermark = cut.watermarks[source];
            assert_eq!(behind, None, "cycle {}: source {source} is said to be at {watermark}", cut.cycle);
        }
    }
}
