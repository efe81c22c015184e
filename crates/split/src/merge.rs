//! Merging: rows that several workers wrote, in the one defined order (position, origin, order of writing).

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use tidemill_core::{Batch, PartitionedBatch, Run, concatenate};

use crate::gather::{self, Gather};
use crate::order::Sorter;

/// One batch with the rows of all, in the order of (position, origin). `positions_end` is one past the
/// largest position. `None` if there are no rows.
///
/// Rows of equal position and origin must be in one batch, in the order of writing: so they are, because one
/// partition writes on one worker.
pub fn merge_by_position(batches: &[Batch], positions_end: u32, sorter: &mut Sorter) -> Option<Batch> {
    let all = concatenate(batches)?;
    if is_ordered(&all) {
        return Some(all);
    }
    let mut order = sorter.sort(&all.positions, positions_end as usize).to_vec();
    order_ties_by_origin(&mut order, &all);
    Some(reorder(&all, &order))
}

/// One partitioned batch with the rows of all, each partition's rows in the order of (position, origin).
pub fn merge_by_partition(
    batches: &[PartitionedBatch],
    positions_end: u32,
    sorter: &mut Sorter,
) -> Option<PartitionedBatch> {
    let all = concatenate(&batches.iter().map(|batch| batch.batch.clone()).collect::<Vec<_>>())?;
    let partitions = concatenate_partitions(batches);
    let mut by_position = sorter.sort(&all.positions, positions_end as usize).to_vec();
    order_ties_by_origin(&mut by_position, &all);
    let keys: Vec<u32> = gather::values(&partitions, &by_position);
    let key_count = partitions.iter().max().map_or(0, |partition| *partition as usize + 1);
    let order: Vec<u32> = gather::values(&by_position, sorter.sort(&keys, key_count));
    let runs = runs_of(&gather::values(&partitions, &order));
    Some(PartitionedBatch { batch: reorder(&all, &order), runs })
}

fn concatenate(batches: &[Batch]) -> Option<Batch> {
    match batches {
        [] => None,
        [batch] => Some(batch.clone()),
        [first, ..] => {
            let columns =
                (0..first.rows.num_columns()).map(|index| concatenate_column(batches, index)).collect();
            let length: usize = batches.iter().map(Batch::len).sum();
            let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(length));
            let rows = RecordBatch::try_new_with_options(first.rows.schema(), columns, &options)
                .expect("all batches of a stream have its schema");
            let positions = batches.iter().flat_map(|batch| batch.positions.iter().copied()).collect();
            let origins = match batches.iter().all(|batch| batch.origins.is_empty()) {
                true => Vec::new().into(),
                false => batches.iter().flat_map(origins_of).collect(),
            };
            Some(Batch { rows, positions, origins })
        }
    }
}

fn concatenate_column(batches: &[Batch], index: usize) -> ArrayRef {
    let columns: Vec<&dyn Array> = batches.iter().map(|batch| batch.rows.column(index).as_ref()).collect();
    concatenate::columns(&columns).expect("the rows of a cycle fit one batch of its schema")
}

fn origins_of(batch: &Batch) -> impl Iterator<Item = u32> + '_ {
    (0..batch.len()).map(|row| batch.origins.get(row).copied().unwrap_or(0))
}

fn concatenate_partitions(batches: &[PartitionedBatch]) -> Vec<u32> {
    let mut partitions = Vec::new();
    for batch in batches {
        let start = partitions.len();
        for run in &batch.runs {
            partitions.resize(start + run.end as usize, run.partition);
        }
    }
    partitions
}

fn is_ordered(batch: &Batch) -> bool {
    let keys = || (0..batch.len()).map(|row| (batch.positions[row], batch.origins.get(row)));
    keys().zip(keys().skip(1)).all(|(a, b)| a <= b)
}

/// Rows of one position that several partitions wrote are rare (the end of a cycle, a broadcast).
fn order_ties_by_origin(order: &mut [u32], batch: &Batch) {
    if batch.origins.is_empty() {
        return;
    }
    let position = |row: &u32| batch.positions[*row as usize];
    for tie in order.chunk_by_mut(|a, b| position(a) == position(b)) {
        if tie.len() > 1 {
            tie.sort_by_key(|row| batch.origins[*row as usize]);
        }
    }
}

fn reorder(batch: &Batch, order: &[u32]) -> Batch {
    let gather = Gather::new(order);
    let columns = batch.rows.columns().iter().map(|column| gather.column(column)).collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(order.len()));
    let rows = RecordBatch::try_new_with_options(Arc::clone(batch.rows.schema_ref()), columns, &options)
        .expect("gathering keeps types and gives equal lengths");
    Batch { rows, positions: gather.buffer(&batch.positions), origins: gather.buffer(&batch.origins) }
}

fn runs_of(partitions: &[u32]) -> Vec<Run> {
    let mut start = 0;
    partitions
        .chunk_by(|a, b| a == b)
        .map(|chunk| {
            let run = Run { partition: chunk[0], start, end: start + chunk.len() as u32 };
            start = run.end;
            run
        })
        .collect()
}
