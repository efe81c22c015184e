//! Conditions on pairs of rows in joins, some of which cannot be computed.

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::DataType;
use tidemill_engine::{Cause, Cut, Expression, FaultLog};

use crate::expressions::compiled::{Compiled, plain};
use crate::expressions::filter_project::describe;
use crate::limit_reached::stops;

/// A condition that is NULL, and so does not match, for pairs for which it cannot be computed. These pairs are counted.
#[derive(Debug)]
pub(crate) struct PairCondition {
    condition: Compiled,
    faults: FaultLog,
}

impl PairCondition {
    pub fn new(condition: Compiled, faults: FaultLog) -> Self {
        PairCondition { condition, faults }
    }

    /// The pairs that cannot be computed are found by bisection, so that one of them in a batch costs little.
    fn by_halves(&self, pairs: &RecordBatch, cut: &Cut, made: &mut Vec<BooleanArray>) -> Result<(), Cause> {
        match self.condition.values(pairs, cut) {
            Ok(values) => made.push(values.as_boolean().clone()),
            Err(error) if pairs.num_rows() <= 1 => {
                if let Some(cause) = stops(&error) {
                    return Err(cause.clone());
                }
                self.faults.add(|| describe(&plain(&error), pairs));
                made.push(BooleanArray::new_null(pairs.num_rows()));
            }
            Err(error) => {
                if let Some(cause) = stops(&error) {
                    return Err(cause.clone());
                }
                let half = pairs.num_rows() / 2;
                self.by_halves(&pairs.slice(0, half), cut, made)?;
                self.by_halves(&pairs.slice(half, pairs.num_rows() - half), cut, made)?;
            }
        }
        Ok(())
    }
}

impl Expression for PairCondition {
    fn data_type(&self) -> DataType {
        self.condition.data_type()
    }

    fn evaluate(&self, pairs: &RecordBatch, cut: &Cut) -> Result<ArrayRef, Cause> {
        if let Ok(values) = self.condition.values(pairs, cut) {
            return Ok(values);
        }
        let mut made = Vec::new();
        self.by_halves(pairs, cut, &mut made)?;
        let made: Vec<_> = made.iter().map(|part| part as _).collect();
        concat(&made).map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }
}
