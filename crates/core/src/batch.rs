//! Batches: the rows of a stream within one cycle, as Arrow columns, each row with its position.

use arrow_array::cast::AsArray;
use arrow_array::{ArrowPrimitiveType, RecordBatch};
use arrow_buffer::ScalarBuffer;

use crate::memory::bytes_of_rows;

use crate::merged_rows::{MergedRows, Side};

/// Rows of one stream within one cycle.
///
/// `positions[i]` names the event that caused row `i`: its index among all events of the cycle, or the number of events
/// in the cycle if the end of the cycle caused the row. `origins[i]` is the partition that wrote the row, or 0 for rows
/// of a source. Rows with equal positions are ordered by origin. So (position, origin, order of writing) is a total
/// order that does not depend on who computed what.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The columns.
    pub rows: RecordBatch,
    /// The position of each row within the cycle.
    pub positions: ScalarBuffer<u32>,
    /// The partition that wrote each row; empty means that all are 0.
    pub origins: ScalarBuffer<u32>,
}

impl Batch {
    /// A batch of source rows.
    ///
    /// # Panics
    /// If there is not exactly one position per row, which is a bug of the caller.
    pub fn from_source(rows: RecordBatch, positions: ScalarBuffer<u32>) -> Self {
        assert_eq!(rows.num_rows(), positions.len(), "a batch needs one position per row");
        Batch { rows, positions, origins: ScalarBuffer::from(Vec::new()) }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The bytes of the columns and positions: only their own share of memory that they share with others.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidemill_core::Batch;
    /// use tidemill_core::arrow::array::{RecordBatch, UInt64Array};
    ///
    /// let column = Arc::new(UInt64Array::from(vec![7, 8, 9])) as _;
    /// let rows = RecordBatch::try_from_iter([("vid", column)]).unwrap();
    /// let batch = Batch::from_source(rows, vec![0, 1, 5].into());
    /// assert_eq!((batch.bytes(), batch.slice(1, 2).bytes()), (36, 12));
    /// ```
    pub fn bytes(&self) -> usize {
        bytes_of_rows(&self.rows) + 4 * (self.positions.len() + self.origins.len())
    }

    /// Rows `start..end`, by reference.
    pub fn slice(&self, start: usize, end: usize) -> Batch {
        let length = end - start;
        let origins =
            if self.origins.is_empty() { self.origins.clone() } else { self.origins.slice(start, length) };
        Batch {
            rows: self.rows.slice(start, length),
            positions: self.positions.slice(start, length),
            origins,
        }
    }

    /// The same rows, with positions moved forward by `base`.
    ///
    /// ```
    /// use tidemill_core::Batch;
    /// use tidemill_core::arrow::array::{RecordBatch, UInt64Array};
    ///
    /// let column = std::sync::Arc::new(UInt64Array::from(vec![7, 8])) as _;
    /// let rows = RecordBatch::try_from_iter([("vid", column)]).unwrap();
    /// assert_eq!(*Batch::from_source(rows, vec![0, 3].into()).moved(10).positions, [10, 13]);
    /// ```
    #[must_use]
    pub fn moved(&self, base: u32) -> Batch {
        let mut batch = self.clone();
        if base > 0 {
            batch.positions = batch.positions.iter().map(|position| position + base).collect();
        }
        batch
    }

    /// The whole batch as rows for an operator.
    pub fn as_rows(&self) -> Rows<'_> {
        Rows::new(self, 0, self.len())
    }
}

/// Consecutive rows of one partition within a grouped batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The logical partition.
    pub partition: u32,
    /// Its first row.
    pub start: u32,
    /// One past its last row.
    pub end: u32,
}

/// Rows that all partitions of a [`PartitionedBatch`] receive, beside those of their own.
#[derive(Clone, Debug)]
pub struct SharedRows {
    /// The rows, kept once.
    pub batch: Batch,
    /// For each row of the partitions' own, how many shared rows come before it.
    pub preceding: ScalarBuffer<u32>,
}

/// A batch whose rows are grouped by partition. `runs` are in ascending order of partition and follow each other over
/// the whole batch. If the whole batch is for several partitions, each of their runs covers all of it.
#[derive(Clone, Debug)]
pub struct PartitionedBatch {
    /// The gathered rows.
    pub batch: Batch,
    /// Which rows belong to which partition. If rows are shared, partitions without rows of their own have runs, too.
    pub runs: Vec<Run>,
    /// Rows for each of these partitions.
    pub shared: Option<SharedRows>,
}

impl PartitionedBatch {
    /// A batch without shared rows.
    pub fn new(batch: Batch, runs: Vec<Run>) -> Self {
        PartitionedBatch { batch, runs, shared: None }
    }

    /// The number of rows given to all partitions together.
    ///
    /// ```
    /// use tidemill_core::arrow::array::{RecordBatch, UInt32Array};
    /// use tidemill_core::{Batch, PartitionedBatch, Run};
    ///
    /// let column = std::sync::Arc::new(UInt32Array::from(vec![7, 8, 9])) as _;
    /// let rows = RecordBatch::try_from_iter([("vid", column)]).unwrap();
    /// let batch = Batch::from_source(rows, (0..3).collect());
    /// let runs = (0..4).map(|partition| Run { partition, start: 0, end: 3 }).collect();
    /// assert_eq!(PartitionedBatch::new(batch, runs).rows_given(), 12);
    /// ```
    pub fn rows_given(&self) -> u64 {
        let own: u64 = self.runs.iter().map(|run| u64::from(run.end - run.start)).sum();
        own + self.runs.len() as u64 * self.shared_rows() as u64
    }

    /// The number of rows that each partition receives beside its own.
    pub fn shared_rows(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.batch.len())
    }

    /// The bytes of all rows; shared ones count once.
    pub fn bytes(&self) -> usize {
        let of_shared = |shared: &SharedRows| shared.batch.bytes() + 4 * shared.preceding.len();
        self.batch.bytes() + self.shared.as_ref().map_or(0, of_shared)
    }

    /// The shared rows merged with rows `start..end` of a partition's own, if there are shared rows.
    ///
    /// ```
    /// use tidemill_core::arrow::array::{RecordBatch, UInt32Array};
    /// use tidemill_core::{Batch, PartitionedBatch, Run, SharedRows};
    ///
    /// let batch = |positions: Vec<u32>| {
    ///     let column = std::sync::Arc::new(UInt32Array::from(positions.clone())) as _;
    ///     Batch::from_source(RecordBatch::try_from_iter([("vid", column)]).unwrap(), positions.into())
    /// };
    /// let runs = vec![Run { partition: 0, start: 0, end: 1 }, Run { partition: 1, start: 1, end: 2 }];
    /// let shared = SharedRows { batch: batch(vec![1, 2]), preceding: vec![1, 0].into() };
    /// let rows = PartitionedBatch { shared: Some(shared), ..PartitionedBatch::new(batch(vec![1, 0]), runs) };
    /// assert_eq!(rows.merged(1, 2).unwrap().positions(), &[0, 1, 2]);
    /// assert_eq!((rows.rows_given(), rows.shared_rows(), rows.bytes()), (6, 2, 40));
    /// ```
    pub fn merged(&self, start: usize, end: usize) -> Option<MergedRows> {
        let SharedRows { batch: shared, preceding } = self.shared.as_ref()?;
        let own = self.batch.slice(start, end);
        let side = |batch: Batch| Side { rows: batch.rows, positions: batch.positions };
        Some(MergedRows::new(side(shared.clone()), side(own), preceding.slice(start, end - start)))
    }
}

/// Consecutive rows of a batch, as an operator sees them: typed columns as slices.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{RecordBatch, UInt32Array, types::UInt32Type};
/// use tidemill_core::Batch;
///
/// let column = Arc::new(UInt32Array::from(vec![7, 8, 9])) as _;
/// let rows = RecordBatch::try_from_iter([("vid", column)]).unwrap();
/// let batch = Batch::from_source(rows, vec![0, 1, 5].into());
/// assert_eq!(batch.as_rows().column::<UInt32Type>(0), &[7, 8, 9]);
/// assert_eq!(batch.as_rows().positions(), &[0, 1, 5]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    from: Backing<'a>,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
enum Backing<'a> {
    Batch(&'a Batch),
    Merged(&'a MergedRows),
}

impl<'a> Rows<'a> {
    /// Rows `start..end` of a batch.
    pub fn new(batch: &'a Batch, start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= batch.len());
        Rows { from: Backing::Batch(batch), start, end }
    }

    /// All rows of a partition that shares some with others.
    pub fn merged(merged: &'a MergedRows) -> Self {
        Rows { from: Backing::Merged(merged), start: 0, end: merged.len() }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The values of a column that has a primitive type and no nulls.
    ///
    /// # Panics
    /// If the column has another type. Plans are checked against the operators' declared schemas before they
    /// run, so this is a bug of the operator.
    pub fn column<T: ArrowPrimitiveType>(&self, index: usize) -> &'a [T::Native] {
        let column = match self.from {
            Backing::Batch(batch) => batch.rows.column(index),
            Backing::Merged(merged) => merged.column(index),
        };
        &column.as_primitive::<T>().values()[self.start..self.end]
    }

    /// The rows as a batch of all columns, by reference.
    pub fn to_batch(&self) -> RecordBatch {
        match self.from {
            Backing::Merged(merged) => merged.to_batch(),
            Backing::Batch(batch) if self.len() == batch.len() => batch.rows.clone(),
            Backing::Batch(batch) => batch.rows.slice(self.start, self.len()),
        }
    }

    /// The position of each row within the cycle.
    pub fn positions(&self) -> &'a [u32] {
        let positions = match self.from {
            Backing::Batch(batch) => &batch.positions[..],
            Backing::Merged(merged) => merged.positions(),
        };
        &positions[self.start..self.end]
    }
}
