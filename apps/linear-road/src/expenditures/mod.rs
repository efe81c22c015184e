//! The expenditure operator: queries of type 3 in, answers from the history out (specification, section 8).

pub mod history;

use std::sync::Arc;

use tidemill_engine::arrow::array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use tidemill_engine::{Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter};

use history::History;

/// The operator's input columns.
pub const COLUMNS: [&str; 5] = ["time", "vid", "xway", "qid", "day"];

/// One logical partition. It has no state: the history is given before the run and never changes.
#[derive(Debug)]
pub struct Expenditures {
    history: Arc<History>,
}

impl Expenditures {
    /// Answers from this history.
    pub fn new(history: Arc<History>) -> Self {
        Expenditures { history }
    }
}

impl Operator for Expenditures {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let times = rows.column::<UInt16Type>(0);
        let vids = rows.column::<UInt32Type>(1);
        let xways = rows.column::<UInt16Type>(2);
        let qids = rows.column::<UInt64Type>(3);
        let days = rows.column::<UInt8Type>(4);
        for row in 0..rows.len() {
            if let Some(toll) = self.history.toll(vids[row], days[row], xways[row]) {
                output.port(0).push(rows.positions()[row], (times[row], qids[row], u64::from(toll)));
            }
        }
        Ok(())
    }

    fn snapshot(&self, _writer: &mut SnapshotWriter) {}

    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}
