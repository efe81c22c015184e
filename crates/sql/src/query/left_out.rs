//! What is missing from the results of a query.

use tidemill_engine::Faults;

/// What is missing from the results of a query because it could not be used, for somebody who sees only the results.
///
/// ```
/// use tidemill_sql::{DiscardSink, Planner, Reply, parse};
/// let mut planner = Planner::new();
/// let statement = &parse("SELECT 10 / (3 - value) AS x FROM sequence(count => 5)", "example").unwrap()[0];
/// let Reply::Query(query) = planner.execute(statement).unwrap() else { panic!("it is a query") };
/// let running = query.open(vec![Box::new(DiscardSink)]).unwrap().start().unwrap();
/// let left_out = running.wait().unwrap().0.left_out().expect("one row divides by 0");
/// assert_eq!(left_out.rows, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// How many rows were left out.
    pub rows: u64,
    /// How many results are NULL because they could not be computed.
    pub null_results: u64,
    /// The first of them, each with its place and the reason.
    pub samples: Vec<String>,
}

impl LeftOut {
    pub(super) fn of(rows: &Faults, results: &Faults) -> Option<LeftOut> {
        let samples =
            rows.samples.iter().chain(&results.samples).take(Faults::SAMPLES_MAX).cloned().collect();
        let left_out = LeftOut { rows: rows.count, null_results: results.count, samples };
        (left_out.rows + left_out.null_results > 0).then_some(left_out)
    }

    /// Says so in one sentence, with the first example.
    pub fn sentence(&self) -> String {
        let counted = |count: u64, what: &str, done: &str, fate: &str| match count {
            0 => None,
            1 => Some(format!("1 {what} could not be {done} and is {fate}")),
            count => Some(format!("{count} {what}s could not be {done} and are {fate}")),
        };
        let rows = counted(self.rows, "row", "used", "left out");
        let results = counted(self.null_results, "result", "computed", "NULL");
        let what = rows.into_iter().chain(results).collect::<Vec<_>>().join("; ");
        match self.samples.first() {
            Some(sample) => format!("{what}: {sample}"),
            None => what,
        }
    }
}
