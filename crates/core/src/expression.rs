//! Expressions, with which operators compute columns from columns without knowing who wrote the expression.

use std::fmt::Debug;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::cut::Cut;
use crate::error::Cause;

/// A pure function of a row, computed for whole batches. Anything that it depends on besides the row (`now()`) is in
/// the cut.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
/// use tidemill_core::arrow::schema::DataType;
/// use tidemill_core::error::Cause;
/// use tidemill_core::{Cut, Expression};
///
/// #[derive(Debug)]
/// struct IsPositive { column: usize }
///
/// impl Expression for IsPositive {
///     fn data_type(&self) -> DataType { DataType::Boolean }
///     fn evaluate(&self, rows: &RecordBatch, _cut: &Cut) -> Result<ArrayRef, Cause> {
///         let values = rows.column(self.column).as_primitive::<Int64Type>();
///         Ok(Arc::new(values.iter().map(|value| value.map(|value| value > 0)).collect::<BooleanArray>()))
///     }
/// }
/// # let column = Arc::new(Int64Array::from(vec![1, -1])) as ArrayRef;
/// # let rows = RecordBatch::try_from_iter([("v", column)]).unwrap();
/// let positive = IsPositive { column: 0 }.evaluate(&rows, &Cut::first()).unwrap();
/// assert_eq!(positive.as_boolean().true_count(), 1);
/// ```
pub trait Expression: Send + Sync + Debug {
    /// The type of its values.
    fn data_type(&self) -> DataType;

    /// One value per row.
    ///
    /// # Errors
    /// If it cannot be computed for a row. The query then stops.
    fn evaluate(&self, rows: &RecordBatch, cut: &Cut) -> Result<ArrayRef, Cause>;
}
