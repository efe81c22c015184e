//! What the operators of a query held after the last cycle of a replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{SnapshotReader, StateRows};
use tidemill_plan::OperatorPlan;

/// The state of a query's operators at the end of a cycle. It is a snapshot; its rows are made when they are asked for.
pub struct PastState {
    operators: Vec<OperatorPlan>,
    snapshot: Snapshot,
}

/// The rows of one kind that the partitions of an operator held, partition by partition.
#[derive(Clone, Debug)]
pub struct OperatorRows {
    /// What they are, such as `windows`.
    pub kind: &'static str,
    /// The rows. The first column, `partition`, says which partition held a row; its name is longer if they have a column
    /// of that name.
    pub rows: Vec<RecordBatch>,
}

impl PastState {
    pub(super) fn new(operators: Vec<OperatorPlan>, snapshot: Snapshot) -> PastState {
        PastState { operators, snapshot }
    }

    /// The cycle after which it was so.
    pub fn cycle(&self) -> u64 {
        self.snapshot.cycle
    }

    /// The names of the operators, in the order of the plan, and their numbers of partitions.
    pub fn operators(&self) -> impl Iterator<Item = (&str, u32)> {
        self.operators.iter().map(|operator| (operator.name.as_str(), operator.partitions))
    }

    /// What an operator held; `None`: it does not show its state.
    ///
    /// # Errors
    /// If there is no such operator, or its state cannot be restored.
    pub fn rows(&self, operator: &str) -> Result<Option<Vec<OperatorRows>>, Cause> {
        let planned = self
            .operators
            .iter()
            .find(|planned| planned.name == operator)
            .ok_or_else(|| Cause::user(format!("the query has no operator '{operator}'")))?;
        let nothing = BTreeMap::new();
        let kept = self.snapshot.operators.get(operator).unwrap_or(&nothing);
        let mut kinds: Vec<OperatorRows> = Vec::new();
        for (partition, bytes) in kept {
            let mut instance = (planned.factory)(*partition);
            instance.restore(&mut SnapshotReader::new(bytes)?)?;
            let Some(shown) = instance.state_rows()? else { return Ok(None) };
            for StateRows { kind, rows } in shown {
                let rows = with_partition(*partition, &rows)?;
                match kinds.iter_mut().find(|known| known.kind == kind) {
                    Some(known) => known.rows.push(rows),
                    None => kinds.push(OperatorRows { kind, rows: vec![rows] }),
                }
            }
        }
        Ok(Some(kinds))
    }
}

fn with_partition(partition: u32, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
    let mut name = "partition".to_owned();
    while rows.schema().column_with_name(&name).is_some() {
        name.push('_');
    }
    let number = Arc::new(Field::new(name, DataType::Int64, false));
    let fields: Vec<_> = std::iter::once(number).chain(rows.schema().fields().iter().cloned()).collect();
    let numbers = Arc::new(Int64Array::from_value(i64::from(partition), rows.num_rows())) as ArrayRef;
    let columns = std::iter::once(numbers).chain(rows.columns().iter().cloned()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Cause::bug(format!("the rows of a state: {error}")).with_source(error))
}
