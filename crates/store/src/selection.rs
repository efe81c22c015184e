//! Which rows of a version are wanted, and what finding them took.

use std::fmt;
use std::ops::AddAssign;

use arrow_array::{ArrayRef, RecordBatch};

use crate::area::Area;

/// Which rows of a version are wanted: those that meet all conditions.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The key's columns, each with one value. NULL is equal to NULL.
    pub key: Option<Vec<ArrayRef>>,
    /// The least and the largest time. Rows without a time are in no range.
    pub time: Option<(i64, i64)>,
    /// A box. Rows without a point are in no box.
    pub area: Option<Area>,
    /// The fragment that has all these rows, if that is known: no other is asked. A key decides it by itself if the rows are
    /// divided by it.
    pub fragment: Option<usize>,
    /// The indexes of the columns that are wanted; `None`: all.
    pub columns: Option<Vec<usize>>,
}

/// What finding rows took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The fragments of the store.
    pub fragments: usize,
    /// Those of them that were asked.
    pub fragments_asked: usize,
    /// The chunks of the version.
    pub chunks: usize,
    /// Those of them in which rows were looked at.
    pub chunks_read: usize,
    /// The rows of the version.
    pub rows: u64,
    /// The rows that were looked at.
    pub rows_examined: u64,
    /// The rows that were found.
    pub rows_found: u64,
    /// Whether the index of keys led to them.
    pub by_key: bool,
}

impl fmt::Display for Work {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fragments > 1 {
            write!(formatter, "{} of {} fragments, ", self.fragments_asked, self.fragments)?;
        }
        let by_key = if self.by_key { ", by key" } else { "" };
        write!(
            formatter,
            "{} of {} chunks, {} of {} rows examined{by_key}, {} found",
            self.chunks_read, self.chunks, self.rows_examined, self.rows, self.rows_found
        )
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.fragments += other.fragments;
        self.fragments_asked += other.fragments_asked;
        self.chunks += other.chunks;
        self.chunks_read += other.chunks_read;
        self.rows += other.rows;
        self.rows_examined += other.rows_examined;
        self.rows_found += other.rows_found;
        self.by_key |= other.by_key;
    }
}

/// Rows that were found, and what it took.
#[derive(Clone, Debug)]
pub struct SelectedRows {
    /// The rows, in the order of the store. No batch is empty.
    pub batches: Vec<RecordBatch>,
    /// What it took.
    pub work: Work,
}
