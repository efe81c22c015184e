//! The plan of a query that runs, with what was measured.

use tidemill_engine::SplitStatus;
use tidemill_sql::{Explained, QueryStatus};

/// The plan of a query that runs or has run.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// As `EXPLAIN ANALYZE` shows it, with the work of each part so far; as `EXPLAIN` does if it has not run.
    pub text: String,
    /// How inputs of operators are split, with the predictions of the model where there are some.
    pub splits: Vec<SplitStatus>,
}

impl PlanReport {
    pub(crate) fn new(explained: &Explained, status: Option<&QueryStatus>) -> PlanReport {
        let text = status.map_or_else(
            || explained.text(),
            |status| format!("{}{}", explained.with(status), status.describe()),
        );
        let splits = status.map_or(Vec::new(), |status| status.engine.splits.clone());
        PlanReport { text, splits }
    }
}
