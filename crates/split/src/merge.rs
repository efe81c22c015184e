//! Merging: combines rows that several workers wrote into the defined order (position, origin, order of writing).

use arrow_array::{Array, ArrayRef, RecordBatch};
use tidemill_core::{Batch, PartitionedBatch, Run, concatenate};

use crate::group::Destinations;
use crate::order::Sorter;
use crate::scatter::{Scatter, Scratch};

/// One batch with the rows of all, in the order of (position, origin). `positions_end` is one past the
/// largest position. `None` if there are no rows.
///
/// Rows with equal position and origin must be in one batch, in the order of writing. This holds because one partition
/// writes on one worker.
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
    if are_for_the_same(batches) {
        let all: Vec<Batch> = batches.iter().map(|batch| batch.batch.clone()).collect();
        return merge_by_position(&all, positions_end, sorter)
            .map(|batch| for_each_of(batch, &batches[0].runs));
    }
    let batches: Vec<PartitionedBatch> = batches.iter().map(each_given_once).collect();
    let all = concatenate(&batches.iter().map(|batch| batch.batch.clone()).collect::<Vec<_>>())?;
    let partitions = concatenate_partitions(&batches);
    let mut by_position = sorter.sort(&all.positions, positions_end as usize).to_vec();
    order_ties_by_origin(&mut by_position, &all);
    let keys = values_at(&partitions, &by_position);
    let key_count = partitions.iter().max().map_or(0, |partition| *partition as usize + 1);
    let order = values_at(&by_position, sorter.sort(&keys, key_count));
    let runs = runs_of(&values_at(&partitions, &order));
    Some(PartitionedBatch::new(reorder(&all, &order), runs))
}

/// Whether each batch as a whole is for several partitions, the same ones for each batch.
fn are_for_the_same(batches: &[PartitionedBatch]) -> bool {
    let partitions =
        |batch: &PartitionedBatch| batch.runs.iter().map(|run| run.partition).collect::<Vec<_>>();
    let is_whole =
        |batch: &PartitionedBatch| batch.shared.is_none() && batch.rows_given() > batch.batch.len() as u64;
    let is_alike = |batch: &PartitionedBatch| is_whole(batch) && partitions(batch) == partitions(&batches[0]);
    batches.iter().all(is_alike)
}

fn for_each_of(batch: Batch, runs: &[Run]) -> PartitionedBatch {
    let whole = |run: &Run| Run { partition: run.partition, start: 0, end: batch.len() as u32 };
    let runs = runs.iter().map(whole).collect();
    PartitionedBatch::new(batch, runs)
}

/// The same rows with a separate row for each partition that receives it, in the order of the runs.
fn each_given_once(batch: &PartitionedBatch) -> PartitionedBatch {
    let given = batch.rows_given() as u32;
    if given as usize == batch.batch.len() {
        return batch.clone();
    }
    let mut rows = Vec::with_capacity(given as usize);
    let mut follow = |run: &Run| {
        let start = rows.len() as u32;
        add_rows_of(run, batch, &mut rows);
        Run { partition: run.partition, start, end: rows.len() as u32 }
    };
    let runs = batch.runs.iter().map(&mut follow).collect();
    let all = match &batch.shared {
        None => batch.batch.clone(),
        Some(shared) => concatenate(&[shared.batch.clone(), batch.batch.clone()]).expect("two batches"),
    };
    let places = Destinations {
        copied_rows: rows,
        of_copies: (0..given).collect(),
        count: given,
        ..Destinations::default()
    };
    PartitionedBatch::new(Scatter::new(&places, &mut Scratch::default()).batch(&all, 0), runs)
}

/// Which rows a run's partition receives, in their order, where shared rows come before all others.
fn add_rows_of(run: &Run, batch: &PartitionedBatch, rows: &mut Vec<u32>) {
    let shared_rows = batch.shared_rows() as u32;
    let mut start = 0;
    for row in run.start..run.end {
        if let Some(shared) = &batch.shared {
            rows.extend(start..shared.preceding[row as usize]);
            start = shared.preceding[row as usize];
        }
        rows.push(shared_rows + row);
    }
    rows.extend(start..shared_rows);
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
            let origins = if batches.iter().all(|batch| batch.origins.is_empty()) {
                Vec::new().into()
            } else {
                batches.iter().flat_map(origins_of).collect()
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

/// It is rare that several partitions write rows of one position (the end of a cycle, a broadcast).
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
    let mut of_rows = vec![0; order.len()];
    (0..).zip(order).for_each(|(place, row)| of_rows[*row as usize] = place);
    let places = Destinations { of_rows, count: order.len() as u32, ..Destinations::default() };
    Scatter::new(&places, &mut Scratch::default()).batch(batch, 0)
}

/// Returns `values[row]` for each row.
fn values_at(values: &[u32], rows: &[u32]) -> Vec<u32> {
    rows.iter().map(|row| values[*row as usize]).collect()
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
