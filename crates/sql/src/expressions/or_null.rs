//! Expressions over rows for some of which they cannot be computed.

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::DataType;
use tidemill_engine::{Cause, Cut, Expression, FaultLog};

use crate::expressions::compiled::{Compiled, plain};
use crate::expressions::filter_project::describe;
use crate::limit_reached::stops;

/// An expression that is NULL for rows for which it cannot be computed. A condition then does not hold for them.
#[derive(Debug)]
pub(crate) struct OrNull {
    expression: Compiled,
    faults: Option<FaultLog>,
}

impl OrNull {
    /// A condition; the rows for which it cannot be computed are counted.
    pub fn condition(condition: Compiled, faults: FaultLog) -> Self {
        OrNull { expression: condition, faults: Some(faults) }
    }

    /// An expression that is NULL where it cannot be represented.
    pub fn value(expression: Compiled) -> Self {
        OrNull { expression, faults: None }
    }

    /// The rows that cannot be computed are found by bisection, so that one of them in a batch costs little.
    fn by_halves(&self, rows: &RecordBatch, cut: &Cut, made: &mut Vec<ArrayRef>) -> Result<(), Cause> {
        match self.expression.values(rows, cut) {
            Ok(values) => made.push(values),
            Err(error) if rows.num_rows() <= 1 => {
                if let Some(cause) = stops(&error) {
                    return Err(cause.clone());
                }
                if let Some(faults) = &self.faults {
                    faults.add(|| describe(&plain(&error), rows));
                }
                made.push(new_null_array(&self.expression.data_type(), rows.num_rows()));
            }
            Err(error) => {
                if let Some(cause) = stops(&error) {
                    return Err(cause.clone());
                }
                let half = rows.num_rows() / 2;
                self.by_halves(&rows.slice(0, half), cut, made)?;
                self.by_halves(&rows.slice(half, rows.num_rows() - half), cut, made)?;
            }
        }
        Ok(())
    }
}

impl Expression for OrNull {
    fn data_type(&self) -> DataType {
        self.expression.data_type()
    }

    fn evaluate(&self, rows: &RecordBatch, cut: &Cut) -> Result<ArrayRef, Cause> {
        if let Ok(values) = self.expression.values(rows, cut) {
            return Ok(values);
        }
        let mut made = Vec::new();
        self.by_halves(rows, cut, &mut made)?;
        let made: Vec<&dyn Array> = made.iter().map(|part| part.as_ref()).collect();
        concat(&made).map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }
}
