//! One batch in, one gathered batch per worker out.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Batch, PartitionedBatch, Run};

use crate::gather::Gather;
use crate::order::Sorter;
use crate::placement::Placement;
use crate::route::{self, Route, RouteError};

/// What one worker gets of a batch.
#[derive(Debug)]
pub struct Share {
    /// The worker.
    pub worker: u32,
    /// Its rows, gathered by partition; within a partition in the batch's order.
    pub rows: PartitionedBatch,
}

/// Splits the batches of one edge of the plan.
pub struct Splitter {
    route: Arc<Route>,
    placement: Arc<Placement>,
    columns: Vec<usize>,
    schema: Option<SchemaRef>,
    destinations: Vec<u32>,
    ranks: Vec<u32>,
    sorter: Sorter,
}

impl Splitter {
    /// A splitter that keeps only these columns.
    pub fn new(route: Arc<Route>, placement: Arc<Placement>, columns: Vec<usize>) -> Self {
        Splitter {
            route,
            placement,
            columns,
            schema: None,
            destinations: Vec::new(),
            ranks: Vec::new(),
            sorter: Sorter::default(),
        }
    }

    /// The shares of a batch, ascending by worker. Positions get `base` added.
    ///
    /// # Errors
    /// If the routing function names a partition that does not exist.
    pub fn split(&mut self, batch: &Batch, base: u32) -> Result<Vec<Share>, RouteError> {
        let partitions = self.placement.partitions();
        self.destinations.clear();
        (self.route)(&batch.rows, &mut self.destinations);
        route::check(&self.destinations, partitions, &batch.rows)?;

        let ranks_of = self.placement.ranks();
        self.ranks.clear();
        self.ranks.extend(
            self.destinations
                .iter()
                .map(|partition| ranks_of.get(*partition as usize).map_or(u32::MAX, |r| *r)),
        );
        let schema = self.schema.get_or_insert_with(|| {
            Arc::new(batch.rows.schema().project(&self.columns).expect("the plan's columns exist"))
        });
        let order = self.sorter.sort(&self.ranks, partitions as usize);

        let mut shares = Vec::with_capacity(self.placement.workers() as usize);
        let mut start = 0;
        while start < order.len() {
            let worker = self.placement.worker_of(self.destinations[order[start] as usize]);
            let runs = runs_of_worker(&order[start..], &self.destinations, &self.placement, worker);
            let end = start + runs.last().map_or(0, |run| run.end as usize);
            let gathered = gather_rows(batch, base, &order[start..end], &self.columns, schema);
            shares.push(Share { worker, rows: PartitionedBatch { batch: gathered, runs } });
            start = end;
        }
        Ok(shares)
    }
}

/// The runs at the beginning of `order` whose partitions live on `worker`.
fn runs_of_worker(order: &[u32], destinations: &[u32], placement: &Placement, worker: u32) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, row) in order.iter().enumerate() {
        let partition = destinations[*row as usize];
        match runs.last_mut() {
            Some(run) if run.partition == partition => run.end = index as u32 + 1,
            _ if placement.worker_of(partition) != worker => break,
            _ => runs.push(Run { partition, start: index as u32, end: index as u32 + 1 }),
        }
    }
    runs
}

fn gather_rows(batch: &Batch, base: u32, order: &[u32], columns: &[usize], schema: &SchemaRef) -> Batch {
    let gather = Gather::new(order);
    let gathered = columns.iter().map(|index| gather.column(batch.rows.column(*index))).collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(order.len()));
    let rows = RecordBatch::try_new_with_options(Arc::clone(schema), gathered, &options)
        .expect("gathering keeps types and gives equal lengths");
    let positions = match base {
        0 => gather.buffer(&batch.positions),
        _ => order.iter().map(|row| batch.positions[*row as usize] + base).collect(),
    };
    Batch { rows, positions, origins: gather.buffer(&batch.origins) }
}
