//! Functions of all rows of a partition, such as window functions of SQL.

use std::fmt::Debug;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::error::Cause;

/// A pure function of the rows of a partition in their order, with one value per row.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::arrow::schema::DataType;
/// use tidemill_core::error::Cause;
/// use tidemill_core::PartitionFunction;
///
/// /// `ROW_NUMBER()`, from the last row to the first.
/// #[derive(Debug)]
/// struct RowsLeft;
///
/// impl PartitionFunction for RowsLeft {
///     fn data_type(&self) -> DataType { DataType::Int64 }
///     fn evaluate(&self, partition: &RecordBatch) -> Result<ArrayRef, Cause> {
///         Ok(Arc::new(Int64Array::from_iter_values((0..partition.num_rows() as i64).rev())))
///     }
/// }
/// # let column = Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef;
/// # let rows = RecordBatch::try_from_iter([("v", column)]).unwrap();
/// assert_eq!(RowsLeft.evaluate(&rows).unwrap().as_ref(), &Int64Array::from(vec![1, 0]));
/// ```
pub trait PartitionFunction: Send + Sync + Debug {
    /// The type of its values.
    fn data_type(&self) -> DataType;

    /// One value per row of the partition.
    ///
    /// # Errors
    /// If it cannot be computed. The query then stops.
    fn evaluate(&self, partition: &RecordBatch) -> Result<ArrayRef, Cause>;
}
