//! Splits one batch into a part for each worker, with rows grouped by partition.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use tidemill_core::{Batch, PartitionedBatch, Run, SharedRows};

use crate::cost::Proportions;
use crate::group::Grouper;
use crate::placement::Placement;
use crate::route::{self, BROADCAST, OMIT, Route, RouteError};
use crate::scatter::{Scatter, Scratch};

/// From this many broadcast rows on, partitions share them: for fewer, a copy for each partition costs less than a merge
/// in each of them.
const SHARED_ROWS_MIN: usize = 256;

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
    /// From how many broadcast rows of a batch on they may be shared.
    shared_rows_min: usize,
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
            shared_rows_min: SHARED_ROWS_MIN,
            placement,
            columns,
            schema: None,
            destinations: Vec::new(),
            grouper: Grouper::default(),
            scratch: Scratch::default(),
        }
    }

    /// The same, with broadcast rows shared from this many in a batch on, rather than 256.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{RecordBatch, UInt32Array, types::UInt32Type};
    /// use tidemill_core::Batch;
    /// use tidemill_split::{BROADCAST, Placement, Route, Splitter};
    ///
    /// let column = Arc::new(UInt32Array::from(vec![0, 1, 2])) as _;
    /// let rows = RecordBatch::try_from_iter([("number", column)]).unwrap();
    /// let batch = Batch::from_source(rows, (0..3).collect());
    /// let route: Arc<Route> = Arc::new(|_: &RecordBatch, to: &mut Vec<u32>| to.extend([5, BROADCAST, 63]));
    /// let mut splitter = Splitter::new(route, Arc::new(Placement::spread(64, 2)), vec![0]).sharing_from(1);
    /// let shares = splitter.split(&batch, 0)?;
    /// assert_eq!(shares.iter().map(|share| share.rows.batch.len()).collect::<Vec<_>>(), [0, 2]);
    /// assert!(shares.iter().all(|share| share.rows.shared_rows() == 1 && share.rows.runs.len() == 32));
    /// # Ok::<(), tidemill_split::RouteError>(())
    /// ```
    #[must_use]
    pub fn sharing_from(self, shared_rows_min: usize) -> Self {
        Splitter { shared_rows_min, ..self }
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
        match &rows.shared {
            Some(shared) => self.split_beside(&rows.batch, &rows.runs, shared),
            None => self.split_runs(&rows.batch, &rows.runs, 0),
        }
    }

    fn split_runs(&mut self, batch: &Batch, runs: &[Run], base: u32) -> Result<Vec<Share>, RouteError> {
        self.destinations.clear();
        (self.route)(&batch.rows, &mut self.destinations);
        if !self.is_each_for_one(batch) {
            route::check(&self.destinations, self.width, &batch.rows)?;
            if is_all_for_all(&self.destinations, runs, batch.len()) {
                return Ok(self.share_all(batch, runs, base));
            }
            let is_shared = self.nodes == 1 && self.are_shared(batch.len());
            self.reduce();
            if is_shared {
                return Ok(self.share_broadcast(batch, base));
            }
            self.grouper.group_copies(&self.destinations, runs, self.nodes, &self.placement);
        }
        let grouped = self.grouped(batch, base);
        Ok(shares_of(&grouped, &self.grouper.places().runs, &self.placement))
    }

    /// Turns destinations into numbers of outputs.
    fn reduce(&mut self) {
        let outputs = self.placement.partitions();
        if outputs < self.width {
            let of_one = self.destinations.iter_mut().filter(|destination| **destination < BROADCAST);
            of_one.for_each(|destination| *destination %= outputs);
        }
    }

    /// Whether so much is broadcast that it is kept once for all partitions. A tree decides so at its root: what is not
    /// shared there has been copied for the lower levels.
    fn are_shared(&self, rows: usize) -> bool {
        let number_of =
            |wanted| self.destinations.iter().filter(|destination| **destination == wanted).count();
        let (broadcast, omitted) = (number_of(BROADCAST), number_of(OMIT));
        let parts =
            || Proportions::counted((rows - broadcast - omitted) as u64, broadcast as u64, omitted as u64);
        broadcast >= self.shared_rows_min && parts().are_shared(self.width)
    }

    /// Broadcast rows once, and the others grouped by partition.
    fn share_broadcast(&mut self, batch: &Batch, base: u32) -> Vec<Share> {
        let shared = self.grouper.group_shared(&self.destinations, &self.placement);
        let mut seen = 0;
        let preceding = self.destinations.iter().map(|destination| {
            seen += u32::from(*destination == BROADCAST);
            seen
        });
        let preceding: ScalarBuffer<u32> = preceding.collect();
        let batch = self.projected(batch);
        let places = self.grouper.places();
        let mut scatter = Scatter::new(places, &mut self.scratch);
        let (rows, preceding) = (scatter.batch(&batch, base), scatter.buffer(&preceding));
        let (start, own) = (shared as usize, (places.count - shared) as usize);
        let grouped = GroupedRows {
            shared: rows.slice(0, start),
            own: rows.slice(start, start + own),
            preceding: preceding.slice(start, own),
        };
        let own_runs = places.runs.iter().map(|run| run.end - run.start);
        grouped.shares(places.runs.iter().map(|run| run.partition).zip(own_runs), &self.placement, |_| true)
    }

    /// The same on a lower level of a tree: rows that are shared already stay so.
    fn split_beside(
        &mut self,
        own: &Batch,
        runs: &[Run],
        shared: &SharedRows,
    ) -> Result<Vec<Share>, RouteError> {
        self.destinations.clear();
        (self.route)(&own.rows, &mut self.destinations);
        if !self.is_each_for_one(own) {
            route::check(&self.destinations, self.width, &own.rows)?;
            self.reduce();
            self.grouper.group_copies(&self.destinations, runs, self.nodes, &self.placement);
        }
        let shared_rows = self.projected(&shared.batch);
        let own = self.grouped(own, 0);
        let places = self.grouper.places();
        let preceding = Scatter::new(places, &mut self.scratch).buffer(&shared.preceding);
        let grouped = GroupedRows { shared: shared_rows, own, preceding };
        let own_runs = places.runs.iter().map(|run| (run.partition, run.end - run.start));
        let is_output = |output: u32| runs.iter().any(|run| output % self.nodes == run.partition);
        Ok(grouped.shares(own_runs, &self.placement, is_output))
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
            Share { worker, rows: PartitionedBatch::new(batch.clone(), runs) }
        };
        (0..self.placement.workers()).map(share).filter(|share| !share.rows.runs.is_empty()).collect()
    }
}

/// Grouped rows with the rows that all their partitions share.
struct GroupedRows {
    shared: Batch,
    own: Batch,
    preceding: ScalarBuffer<u32>,
}

impl GroupedRows {
    /// Each worker's part, by reference. `own_runs` are the partitions with rows of their own, in the order of (worker,
    /// partition), with the number of these.
    fn shares(
        &self,
        own_runs: impl Iterator<Item = (u32, u32)>,
        placement: &Placement,
        is_output: impl Fn(u32) -> bool,
    ) -> Vec<Share> {
        let mut own_runs = own_runs.peekable();
        let (mut shares, mut first) = (Vec::new(), 0);
        for worker in 0..placement.workers() {
            let mut length = 0;
            let mut run = |partition: u32| {
                let rows = own_runs.next_if(|(next, _)| *next == partition).map_or(0, |(_, rows)| rows);
                length += rows;
                Run { partition, start: length - rows, end: length }
            };
            let outputs = placement.partitions_of(worker).iter().copied().filter(|output| is_output(*output));
            let runs: Vec<Run> = outputs.map(&mut run).collect();
            let (start, length) = (first, length as usize);
            first += length;
            if !runs.is_empty() {
                let batch = self.own.slice(start, start + length);
                let preceding = self.preceding.slice(start, length);
                let shared = Some(SharedRows { batch: self.shared.clone(), preceding });
                shares.push(Share { worker, rows: PartitionedBatch { batch, runs, shared } });
            }
        }
        shares
    }
}

/// Whether all rows go to all outputs, by splitters that all have all rows.
fn is_all_for_all(destinations: &[u32], runs: &[Run], rows: usize) -> bool {
    let is_whole = |run: &Run| run.start == 0 && run.end as usize == rows;
    // If the first row is not broadcast, no more need be examined.
    rows > 0 && destinations.iter().all(|destination| *destination == BROADCAST) && runs.iter().all(is_whole)
}

/// Each worker's part of grouped rows, by reference.
fn shares_of(grouped: &Batch, runs: &[Run], placement: &Placement) -> Vec<Share> {
    let worker_of = |run: &Run| placement.worker_of(run.partition);
    let is_one_workers = |a: &Run, b: &Run| worker_of(a) == worker_of(b);
    let share = |runs: &[Run]| {
        let (start, end) = (runs[0].start, runs[runs.len() - 1].end);
        let run = |run: &Run| Run { start: run.start - start, end: run.end - start, ..*run };
        let batch = grouped.slice(start as usize, end as usize);
        let rows = PartitionedBatch::new(batch, runs.iter().map(run).collect());
        Share { worker: worker_of(&runs[0]), rows }
    };
    runs.chunk_by(is_one_workers).map(share).collect()
}
