//! What happens to a result that cannot be represented, such as a sum that is too large.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use tidemill_core::{Cause, Fault, FaultLog};

use crate::arrow_bug::arrow_bug;
use crate::{Accumulator, AggregateSpec};

/// What happens to a result that cannot be represented.
#[derive(Clone, Debug, Default)]
pub enum FailedResults {
    /// It ends the query with a user error.
    #[default]
    Stop,
    /// It becomes NULL, and the log records where and why. The rest of its row and all other rows are unaffected. The
    /// state keeps more digits than the result, so the value returns once it fits.
    Null(FaultLog),
}

impl FailedResults {
    /// The column of results that `evaluate` returns for rows, with NULL where it fails. The failing rows are found by
    /// bisection, so that one among many costs little. `tell` describes a row.
    ///
    /// # Errors
    /// If a result cannot be represented and that ends the query, or for any other reason.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{Array, ArrayRef, Int64Array};
    /// use arrow_schema::DataType;
    /// use tidemill_core::{Cause, FaultLog};
    /// use tidemill_operators::FailedResults;
    ///
    /// let sums = [1_i128, 1 << 70, 3];
    /// let narrow = |rows: std::ops::Range<usize>| {
    ///     let fits = |sum: &i128| i64::try_from(*sum).map_err(|_| Cause::user("too large"));
    ///     let values = sums[rows].iter().map(fits).collect::<Result<Vec<i64>, Cause>>()?;
    ///     Ok(Arc::new(Int64Array::from(values)) as ArrayRef)
    /// };
    /// let log = FaultLog::default();
    /// let failed = FailedResults::Null(log.clone());
    /// let column = failed.column(3, &DataType::Int64, narrow, |row, why| format!("row {row}: {why}")).unwrap();
    /// assert_eq!(column.as_ref(), &Int64Array::from(vec![Some(1), None, Some(3)]));
    /// assert_eq!(log.read().samples, ["row 1: too large"]);
    /// ```
    pub fn column(
        &self,
        rows: usize,
        data_type: &DataType,
        evaluate: impl Fn(Range<usize>) -> Result<ArrayRef, Cause>,
        tell: impl Fn(usize, &str) -> String,
    ) -> Result<ArrayRef, Cause> {
        let log = match (evaluate(0..rows), self) {
            (Err(Cause { fault: Fault::User, .. }), FailedResults::Null(log)) => log,
            (done, _) => return done,
        };
        let mut parts: Vec<ArrayRef> = Vec::new();
        // What is still to be evaluated, the first rows last.
        let all = 0..rows;
        let mut left = vec![all];
        while let Some(range) = left.pop() {
            match evaluate(range.clone()) {
                Ok(values) => parts.push(values),
                Err(Cause { fault: Fault::User, message: reason, .. }) if range.len() <= 1 => {
                    log.add(|| tell(range.start, &reason));
                    parts.push(new_null_array(data_type, range.len()));
                }
                Err(Cause { fault: Fault::User, .. }) => {
                    let middle = range.start + range.len() / 2;
                    left.extend([middle..range.end, range.start..middle]);
                }
                Err(other) => return Err(other),
            }
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        concat(&parts).map_err(arrow_bug("putting results together"))
    }
}

/// The results of an aggregation: their names, their types, and what happens to those that fail.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// The names of the output's columns: keys and window bounds, then the results.
    names: Vec<String>,
    types: Vec<DataType>,
    pub failed: FailedResults,
}

impl Results {
    /// The results of a specification.
    pub fn new(spec: &AggregateSpec) -> Results {
        let types = spec.calls.iter().map(|call| call.function.result_type()).collect();
        Results { names: spec.names.clone(), types, failed: FailedResults::default() }
    }

    /// The same, where those that fail are NULL, without a message.
    pub fn or_null(&self) -> Results {
        Results { failed: FailedResults::Null(FaultLog::default()), ..self.clone() }
    }

    /// The results of all functions for these groups. `heads` are the columns before them: the groups' keys and the
    /// bounds of their windows.
    pub fn evaluate(
        &self,
        accumulators: &[Box<dyn Accumulator>],
        ids: &[u32],
        heads: &[ArrayRef],
        cycle: u64,
    ) -> Result<Vec<ArrayRef>, Cause> {
        let evaluate = |call: usize, rows: Range<usize>| accumulators[call].evaluate(&ids[rows]);
        let tell = |row: usize| described(heads.iter().zip(&self.names), row);
        self.evaluate_with(ids.len(), evaluate, tell, cycle)
    }

    /// The results of all functions for some rows, given a call's results for a range of them, and a row's description.
    pub fn evaluate_with(
        &self,
        rows: usize,
        evaluate: impl Fn(usize, Range<usize>) -> Result<ArrayRef, Cause>,
        tell: impl Fn(usize) -> String,
        cycle: u64,
    ) -> Result<Vec<ArrayRef>, Cause> {
        let heads = self.names.len().saturating_sub(self.types.len());
        let column = |(call, data_type): (usize, &DataType)| {
            self.failed.column(
                rows,
                data_type,
                |rows| evaluate(call, rows),
                |row, reason| {
                    format!("{} is NULL{}, cycle {cycle}: {reason}", self.names[heads + call], tell(row))
                },
            )
        };
        self.types.iter().enumerate().map(column).collect()
    }
}

/// A row's values with the names of their columns, after ` for `; empty if there are none.
pub(crate) fn described<'a>(
    columns: impl Iterator<Item = (&'a ArrayRef, impl AsRef<str>)>,
    row: usize,
) -> String {
    const VALUES_MAX: usize = 8;
    const BYTES_MAX: usize = 80;
    let shown = columns.take(VALUES_MAX).map(|(column, name)| {
        let mut value = if column.is_null(row) {
            "NULL".to_owned()
        } else {
            array_value_to_string(column, row).unwrap_or_default()
        };
        if value.len() > BYTES_MAX {
            value.truncate((0..=BYTES_MAX).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0));
            value.push_str("...");
        }
        format!("{}: {value}", name.as_ref())
    });
    match shown.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!(" for {some}"),
    }
}
