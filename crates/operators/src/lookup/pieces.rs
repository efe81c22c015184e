//! The results of a join that is computed piece by piece, because its rows find many others.

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
    pieces: Vec<Transformed>,
    account: MemoryAccount,
}

impl Pieces {
    pub fn new(schema: &SchemaRef, memory: &MemoryBudget) -> Pieces {
        Pieces { schema: schema.clone(), pieces: Vec::new(), account: memory.account() }
    }

    /// Adds a piece.
    pub fn add(&mut self, piece: Transformed) -> Result<(), Cause> {
        // The rows, and the position of each.
        let bytes = bytes_of_rows(&piece.rows) + 4 * piece.rows.num_rows();
        self.account.grow("a join", bytes as u64)?;
        self.pieces.push(piece);
        Ok(())
    }

    /// The pieces as one.
    pub fn joined(mut self) -> Result<Transformed, Cause> {
        if let [_] = self.pieces.as_slice()
            && let Some(only) = self.pieces.pop()
        {
            return Ok(only);
        }
        let made = self.pieces.iter().map(|piece| &piece.rows);
        let made = concat_batches(&self.schema, made).map_err(|error| {
            Cause::resource(format!(
                "the joined rows do not fit into one batch: {error}; use smaller cycles (cycle_events)"
            ))
            .with_source(error)
        })?;
        let causes = self.pieces.iter().flat_map(|piece| &piece.causes).flatten().copied().collect();
        Ok(Transformed { rows: made, causes: Some(causes) })
    }
}
