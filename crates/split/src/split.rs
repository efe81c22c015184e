//! One batch in, one gathered batch per worker out.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::{Batch, PartitionedBatch, Run};

use crate::gather::{self, Gather};
use crate::order::Sorter;
use crate::placement::Placement;
use crate::route::{self, BROADCAST, OMIT, Route, RouteError};

/// What one worker gets of a batch.
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
    /// How many splitters this level has; 1 where one splitter does it all.
    nodes: u32,
    /// Where this level's outputs are.
    placement: Arc<Placement>,
    columns: Vec<usize>,
    schema: Option<SchemaRef>,
    copies: Copies,
    ranks: Vec<u32>,
    rows: Vec<u32>,
    sorter: Sorter,
}

/// What is to be written of a batch: for each copy the output, and the row that it is a copy of.
#[derive(Default)]
struct Copies {
    outputs: Vec<u32>,
    /// Empty if copy `i` is of row `i`.
    rows: Vec<u32>,
}

impl Splitter {
    /// A splitter to all partitions that keeps only these columns.
    pub fn new(route: Arc<Route>, placement: Arc<Placement>, columns: Vec<usize>) -> Self {
        let width = placement.partitions();
        Splitter::of_level(route, width, 1, placement, columns)
    }

    /// The splitters of one level of a tree that leads to `width` partitions: `nodes` of them, whose outputs
    /// are as many as the placement has partitions.
    ///
    /// Node `k` of a level leads to the partitions `p` with `p mod nodes = k`, and so does each output to those
    /// with `p mod outputs` its number: the multi-level hash of [`cost::output_at_level`].
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
            copies: Copies::default(),
            ranks: Vec::new(),
            rows: Vec::new(),
            sorter: Sorter::default(),
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

    /// The shares of what several splitters of a level were given: each run's partition is its splitter's
    /// number.
    ///
    /// # Errors
    /// If the routing function names a partition that does not exist.
    pub fn split_level(&mut self, rows: &PartitionedBatch) -> Result<Vec<Share>, RouteError> {
        self.split_runs(&rows.batch, &rows.runs, 0)
    }

    fn split_runs(&mut self, batch: &Batch, runs: &[Run], base: u32) -> Result<Vec<Share>, RouteError> {
        let outputs = self.placement.partitions();
        self.copies.outputs.clear();
        (self.route)(&batch.rows, &mut self.copies.outputs);
        route::check(&self.copies.outputs, self.width, &batch.rows)?;
        if outputs < self.width {
            reduce(&mut self.copies.outputs, outputs);
        }
        self.copies.expand(runs, self.nodes, outputs);

        let ranks_of = self.placement.ranks();
        let rank = |output: &u32| ranks_of.get(*output as usize).copied().unwrap_or(u32::MAX);
        self.ranks.clear();
        self.ranks.extend(self.copies.outputs.iter().map(rank));
        let order = self.sorter.sort(&self.ranks, outputs as usize);
        let rows = match self.copies.rows.is_empty() {
            true => order,
            false => {
                self.rows.clear();
                self.rows.extend(order.iter().map(|copy| self.copies.rows[*copy as usize]));
                &self.rows
            }
        };

        let schema = self.schema.get_or_insert_with(|| {
            Arc::new(batch.rows.schema().project(&self.columns).expect("the plan's columns exist"))
        });
        let mut shares = Vec::with_capacity(self.placement.workers() as usize);
        let mut start = 0;
        while start < order.len() {
            let worker = self.placement.worker_of(self.copies.outputs[order[start] as usize]);
            let runs = runs_of_worker(&order[start..], &self.copies.outputs, &self.placement, worker);
            let end = start + runs.last().map_or(0, |run| run.end as usize);
            let gathered = gather_rows(batch, base, &rows[start..end], &self.columns, schema);
            shares.push(Share { worker, rows: PartitionedBatch { batch: gathered, runs } });
            start = end;
        }
        Ok(shares)
    }
}

/// Destinations become numbers of outputs.
fn reduce(destinations: &mut [u32], outputs: u32) {
    for destination in destinations.iter_mut().filter(|destination| **destination < BROADCAST) {
        *destination %= outputs;
    }
}

impl Copies {
    /// Puts a copy for each output of its splitter in the place of each row that is broadcast.
    fn expand(&mut self, runs: &[Run], nodes: u32, outputs: u32) {
        self.rows.clear();
        // A sum has no branches, unlike a search.
        let count = self.outputs.iter().fold(0, |count, output| count + usize::from(*output == BROADCAST));
        if count == 0 {
            return;
        }
        let destinations = std::mem::take(&mut self.outputs);
        self.outputs.reserve(destinations.len() + count * (outputs / nodes) as usize);
        self.rows.reserve(destinations.len() + count * (outputs / nodes) as usize);
        for run in runs {
            for row in run.start..run.end {
                match destinations[row as usize] {
                    OMIT => {}
                    BROADCAST => {
                        self.outputs.extend((run.partition..outputs).step_by(nodes as usize));
                        self.rows.resize(self.outputs.len(), row);
                    }
                    output => {
                        self.outputs.push(output);
                        self.rows.push(row);
                    }
                }
            }
        }
    }
}

/// The runs at the beginning of `order` whose partitions live on `worker`.
fn runs_of_worker(order: &[u32], outputs: &[u32], placement: &Placement, worker: u32) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, copy) in order.iter().enumerate() {
        let partition = outputs[*copy as usize];
        match runs.last_mut() {
            Some(run) if run.partition == partition => run.end = index as u32 + 1,
            _ if placement.worker_of(partition) != worker => break,
            _ => runs.push(Run { partition, start: index as u32, end: index as u32 + 1 }),
        }
    }
    runs
}

fn gather_rows(batch: &Batch, base: u32, rows: &[u32], columns: &[usize], schema: &SchemaRef) -> Batch {
    let gather = Gather::new(rows);
    let gathered = columns.iter().map(|index| gather.column(batch.rows.column(*index))).collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let positions = match base {
        0 => gather.buffer(&batch.positions),
        _ => gather::map_values(&batch.positions, rows, |position| position + base).into(),
    };
    let origins = gather.buffer(&batch.origins);
    let rows = RecordBatch::try_new_with_options(Arc::clone(schema), gathered, &options)
        .expect("gathering keeps types and gives equal lengths");
    Batch { rows, positions, origins }
}
