//! Rows for a sort. A table in memory comes as slices of one large batch, and the sort counts the whole batch for each slice
//! that it keeps: three million rows would pass every limit. So it gets copies.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::StreamExt;
use tidemill_engine::bytes_of_rows;

use super::passed_rows::PassedRows;

/// The sort with rows that share no memory with others. Other nodes stay as they are.
pub(super) fn of_sort(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match node.downcast_ref::<SortExec>() {
        Some(sort) => {
            let input = PassedRows::over(sort.input(), "OwnRows", pass);
            replace_children_if_necessary(node, vec![input])
        }
        None => Ok(node),
    }
}

fn pass(input: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = input.schema();
    let owned = input.map(|batch| batch.and_then(|batch| owned(&batch)));
    Box::pin(RecordBatchStreamAdapter::new(schema, owned))
}

/// The same rows. They are copied if the batch keeps more than twice their memory.
fn owned(batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.get_array_memory_size() <= 2 * bytes_of_rows(batch) {
        return Ok(batch.clone());
    }
    let rows = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
    Ok(take_record_batch(batch, &rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};

    #[test]
    fn a_slice_is_copied_and_a_batch_of_its_own_is_not() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..100_000).map(|i| format!("text {i}"))));
        let whole = RecordBatch::try_from_iter([("number", numbers), ("text", texts)]).unwrap();
        let slice = whole.slice(50_000, 1000);
        let copy = owned(&slice).unwrap();
        assert_eq!(copy, slice);
        assert!(copy.get_array_memory_size() < 100_000, "{}", copy.get_array_memory_size());
        let same = owned(&whole).unwrap();
        assert!(Arc::ptr_eq(same.column(0), whole.column(0)));
    }
}
