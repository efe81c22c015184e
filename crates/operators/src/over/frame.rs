//! Which rows of its key belong to a frame.

use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::function::Step;
use super::spec::Frame;

/// The coordinates of rows in the order of their key: by count for `ROWS`, by event time for `RANGE`.
#[derive(Debug)]
pub(super) struct Coordinates {
    frame: Frame,
    /// The number of rows of each key; counted only if the frame is bounded by it.
    rows: Vec<i64>,
}

impl Coordinates {
    pub fn new(frame: Frame) -> Self {
        Coordinates { frame, rows: Vec::new() }
    }

    /// Whether rows leave the frame.
    pub fn is_bounded(&self) -> bool {
        !matches!(self.frame, Frame::Rows { preceding: None } | Frame::Range { preceding_ns: None })
    }

    /// Makes room for new keys.
    pub fn resize(&mut self, key_count: usize) {
        self.rows.resize(key_count, 0);
    }

    /// The coordinate of the key's next row, and the smallest one in its frame. Must be called once for every row.
    #[inline]
    pub fn next(&mut self, step: &Step<'_>, row: usize) -> (i64, i64) {
        match self.frame {
            Frame::Rows { preceding: None } | Frame::Range { preceding_ns: None } => (0, i64::MIN),
            Frame::Rows { preceding: Some(preceding) } => {
                let rows = &mut self.rows[step.keys[row] as usize];
                *rows += 1;
                (*rows, rows.saturating_sub_unsigned(preceding as u64))
            }
            Frame::Range { preceding_ns: Some(preceding_ns) } => {
                (step.times[row], step.times[row].saturating_sub(preceding_ns))
            }
        }
    }

    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.rows.len() as u64);
        self.rows.iter().for_each(|rows| writer.i64(*rows));
    }

    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.rows = (0..reader.u64()?).map(|_| reader.i64()).collect::<Result<_, _>>()?;
        Ok(())
    }
}
