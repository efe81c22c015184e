//! The results of a join that is computed piece by piece, because its rows find many others.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::{Cause, MemoryAccount, MemoryBudget, Transformed};

/// The most pairs of one piece, and about the most bytes of them: all are there before those that an additional condition
/// refuses are dropped.
const PAIRS_MAX: usize = 1 << 18;
const BYTES_MAX: usize = 32 << 20;

/// How many pairs of this length are looked at at once.
pub(super) fn pairs_at_once(bytes: usize) -> usize {
    (BYTES_MAX / bytes.max(1)).clamp(1, PAIRS_MAX)
}

/// The joined rows of the pieces so far.
pub(super) struct Pieces {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
    causes: Vec<u32>,
    account: MemoryAccount,
}

impl Pieces {
    pub fn new(schema: &SchemaRef, memory: &MemoryBudget) -> Pieces {
        Pieces { schema: schema.clone(), rows: Vec::new(), causes: Vec::new(), account: memory.account() }
    }

    /// Adds what a piece of this many rows gives, of which `first` is the number of the first row.
    pub fn add(&mut self, piece: Transformed, first: u32, rows: usize) -> Result<(), Cause> {
        // The rows, and the position of each.
        let bytes = bytes_of_rows(&piece.rows) + 4 * piece.rows.num_rows();
        self.account.grow("a join", bytes as u64)?;
        match piece.causes {
            None => self.causes.extend(first..first + rows as u32),
            Some(causes) => self.causes.extend(causes.iter().map(|row| first + row)),
        }
        self.rows.push(piece.rows);
        Ok(())
    }

    /// All rows.
    pub fn joined(self) -> Result<Transformed, Cause> {
        let rows = concat_batches(&self.schema, &self.rows).map_err(|error| {
            Cause::resource(format!(
                "the joined rows do not fit into one batch: {error}; use smaller cycles (cycle_events)"
            ))
            .with_source(error)
        })?;
        Ok(Transformed { rows, causes: Some(self.causes) })
    }
}
