//! Splits one batch into a part for each worker, with rows grouped by partition.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use tidemill_core::{Batch, PartitionedBatch, Run};

use crate::group::Grouper;
use crate::placement::Placement;
use crate::route::{self, BROADCAST, Route, RouteError};
use crate::scatter::{Scatter, Scratch};

/// One worker's part of a batch.
#[derive(Debug)]
pub struct Share {
    /// The worker.
    pub worker: u32,
    /// Its rows, gathered by partition; within a partition in the batch's order.
    pub rows: PartitionedBatch,
}

/// Splits the batches of one edge of the plan: all the way to the partitions, or on one level of a tree.
pub struct Splitter {
    route: Arc<Route>,
    /// The partitions that the routing function knows.
    width: u32,
    /// The number of splitters on this level; 1 if there is only one splitter.
    nodes: u32,
    /// Where this level's outputs are.
    placement: Arc<Placement>,
    columns: Vec<usize>,
    schema: Option<SchemaRef>,
    destinations: Vec<u32>,
    grouper: Grouper,
    scratch: Scratch,
}

impl Splitter {
    /// A splitter to all partitions that keeps only these columns.
    pub fn new(route: Arc<Route>, placement: Arc<Placement>, columns: Vec<usize>) -> Self {
        let width = placement.partitions();
        Splitter::of_level(route, width, 1, placement, columns)
    }

    /// The splitters of one level of a tree that leads to `width` partitions: `nodes` splitters, which have as many
    /// outputs as the placement has partitions.
    ///
    /// Node `k` of a level leads to the partitions `p` with `p mod nodes = k`, and each output to those for which `p
    /// mod outputs` is its number: the multi-level hash of [`cost::output_at_level`].
    ///
    /// [`cost::output_at_level`]: crate::cost::output_at_level
    pub fn of_level(
        route: Arc<Route>,
        width: u32,
        nodes: u32,
        placement: Arc<Placement>,
        columns: Vec<usize>,
    ) -> Self {
        Splitter {
            route,
            width,
            nodes,
            placement,
            columns,
            schema: None,
            destinations: Vec::new(),
            grouper: Grouper::default(),
            scratch: Scratch::default(),
        }
    }

    /// The shares of a batch, ascending by worker. Positions get `base` added.
    ///
    /// # Errors
    /// If the routing function names a partition that does not exist.
    pub fn split(&mut self, batch: &Batch, base: u32) -> Result<Vec<Share>, RouteError> {
        let all = Run { partition: 0, start: 0, end: batch.len() as u32 };
        self.split_runs(batch, &[all], base)
    }

    /// The parts of the input of several splitters of a level: the partition of each run is the number of its splitter.
    ///
    /// # Errors
    /// If the routing function names a partition that does not exist.
    pub fn split_level(&mut self, rows: &PartitionedBatch) -> Result<Vec<Share>, RouteError> {
        self.split_runs(&rows.batch, &rows.runs, 0)
    }

    fn split_runs(&mut self, batch: &Batch, runs: &[Run], base: u32) -> Result<Vec<Share>, RouteError> {
        self.destinations.clear();
        (self.route)(&batch.rows, &mut self.destinations);
        if !self.is_each_for_one(batch) {
            route::check(&self.destinations, self.width, &batch.rows)?;
            if is_all_for_all(&self.destinations, runs, batch.len()) {
                return Ok(self.share_all(batch, runs, base));
            }
            let outputs = self.placement.partitions();
            if outputs < self.width {
                reduce(&mut self.destinations, outputs);
            }
            self.grouper.group_copies(&self.destinations, runs, self.nodes, &self.placement);
        }
        let grouped = self.grouped(batch, base);
        Ok(shares_of(&grouped, &self.grouper.places().runs, &self.placement))
    }

    /// Groups the rows if each is for one partition, which is the common case, in a fast way.
    fn is_each_for_one(&mut self, batch: &Batch) -> bool {
        let are_outputs = self.placement.partitions() == self.width && self.destinations.len() == batch.len();
        are_outputs && self.grouper.group(&self.destinations, &self.placement)
    }

    /// The rows in their places.
    fn grouped(&mut self, batch: &Batch, base: u32) -> Batch {
        let batch = self.projected(batch);
        let places = self.grouper.places();
        let stays = |(row, place): (u32, &u32)| row == *place;
        if places.count as usize == batch.len()
            && (0..).zip(&places.of_rows).all(stays)
            && places.of_copies.is_empty()
        {
            return batch.moved(base);
        }
        Scatter::new(places, &mut self.scratch).batch(&batch, base)
    }

    /// The columns that are kept, by reference.
    fn projected(&mut self, batch: &Batch) -> Batch {
        let project = || batch.rows.schema().project(&self.columns).expect("the plan's columns exist");
        let schema = Arc::clone(self.schema.get_or_insert_with(|| Arc::new(project())));
        let columns = self.columns.iter().map(|index| Arc::clone(batch.rows.column(*index))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        let rows = RecordBatch::try_new_with_options(schema, columns, &options)
            .expect("these are the columns of the schema");
        Batch { rows, positions: batch.positions.clone(), origins: batch.origins.clone() }
    }

    /// All rows for all outputs of their splitters, as one batch that all share.
    fn share_all(&mut self, batch: &Batch, runs: &[Run], base: u32) -> Vec<Share> {
        let batch = self.projected(batch).moved(base);
        let is_output = |output: u32| runs.iter().any(|run| output % self.nodes == run.partition);
        let share = |worker| {
            let outputs = self.placement.partitions_of(worker).iter().filter(|output| is_output(**output));
            let run = |output: &u32| Run { partition: *output, start: 0, end: batch.len() as u32 };
            let runs: Vec<Run> = outputs.map(run).collect();
            Share { worker, rows: PartitionedBatch { batch: batch.clone(), runs } }
        };
        (0..self.placement.workers()).map(share).filter(|share| !share.rows.runs.is_empty()).collect()
    }
}

/// Whether all rows go to all outputs, by splitters that all have all rows.
fn is_all_for_all(destinations: &[u32], runs: &[Run], rows: usize) -> bool {
    let is_whole = |run: &Run| run.start == 0 && run.end as usize == rows;
    // If the first row is not broadcast, no more need be examined.
    rows > 0 && destinations.iter().all(|destination| *destination == BROADCAST) && runs.iter().all(is_whole)
}

/// Turns destinations into numbers of outputs.
fn reduce(destinations: &mut [u32], outputs: u32) {
    for destination in destinations.iter_mut().filter(|destination| **destination < BROADCAST) {
        *destination %= outputs;
    }
}

/// Each worker's part of grouped rows, by reference.
fn shares_of(grouped: &Batch, runs: &[Run], placement: &Placement) -> Vec<Share> {
    let worker_of = |run: &Run| placement.worker_of(run.partition);
    let is_one_workers = |a: &Run, b: &Run| worker_of(a) == worker_of(b);
    let share = |runs: &[Run]| {
        let (start, end) = (runs[0].start, runs[runs.len() - 1].end);
        let run = |run: &Run| Run { start: run.start - start, end: run.end - start, ..*run };
        let batch = grouped.slice(start as usize, end as usize);
        let rows = PartitionedBatch { batch, runs: runs.iter().map(run).collect() };
        Share { worker: worker_of(&runs[0]), rows }
    };
    runs.chunk_by(is_one_workers).map(share).collect()
}
