//! What transforms make of a batch, a piece at a time, until all of it can be sent.

use arrow_buffer::ScalarBuffer;
use tidemill_core::error::Cause;
use tidemill_core::{Batch, MemoryAccount, MemoryBudget, concatenate};

/// What errors name.
const HOLDER: &str = "what joins and UNNEST make of one batch of rows";

/// So many small pieces are put together at once.
const PIECES_MAX: usize = 256;
/// Larger pieces are copied only once, when they are sent.
const SMALL_BYTES: usize = 16 << 20;

/// Counts the pieces that are held until their cycle has been sent: nobody else counts them before.
pub(crate) struct MadeMemory {
    account: MemoryAccount,
    cycle: u64,
}

impl MadeMemory {
    pub fn new(memory: &MemoryBudget) -> MadeMemory {
        MadeMemory { account: memory.account(), cycle: 0 }
    }

    /// Begins with a batch. What was made in earlier cycles counts no more.
    pub fn begin(&mut self, cycle: u64) {
        if cycle != self.cycle {
            self.account.set(0);
            self.cycle = cycle;
        }
    }
}

/// What was made of a batch for an edge.
#[derive(Default)]
pub(crate) struct MadePieces {
    pieces: Vec<Batch>,
    bytes: usize,
}

impl MadePieces {
    /// Adds a piece. A transform that makes one only is not counted, as the batch of which it was made is not.
    pub fn add(&mut self, piece: Batch, memory: &mut MadeMemory) -> Result<(), Cause> {
        if self.bytes == 0
            && let [first] = self.pieces.as_slice()
        {
            self.bytes = first.bytes();
            memory.account.grow(HOLDER, self.bytes as u64)?;
        }
        if !self.pieces.is_empty() {
            memory.account.grow(HOLDER, piece.bytes() as u64)?;
            self.bytes += piece.bytes();
        }
        self.pieces.push(piece);
        if self.pieces.len() >= PIECES_MAX && self.bytes <= SMALL_BYTES {
            self.pieces = vec![together(&self.pieces)?];
        }
        Ok(())
    }

    /// Returns all that was made, as one batch.
    pub fn take(&mut self, memory: &mut MadeMemory) -> Result<Option<Batch>, Cause> {
        let (mut pieces, bytes) = (std::mem::take(&mut self.pieces), std::mem::take(&mut self.bytes));
        if pieces.len() <= 1 {
            return Ok(pieces.pop());
        }
        // Both are there until it is done.
        let before = memory.account.bytes();
        memory.account.grow(HOLDER, bytes as u64)?;
        let batch = together(&pieces)?;
        memory.account.set(before);
        Ok(Some(batch))
    }
}

fn together(pieces: &[Batch]) -> Result<Batch, Cause> {
    let Some(first) = pieces.first() else { return Err(Cause::bug("there are no pieces")) };
    let rows: Vec<_> = pieces.iter().map(|piece| piece.rows.clone()).collect();
    let rows = concatenate::batches(&first.rows.schema(), &rows).map_err(|error| {
        Cause::resource(format!(
            "the rows that are made of one batch do not fit into one: {error}; use smaller cycles (cycle_events)"
        ))
        .with_source(error)
    })?;
    let together = |values: fn(&Batch) -> &ScalarBuffer<u32>| {
        pieces.iter().flat_map(|piece| values(piece).iter().copied()).collect()
    };
    Ok(Batch {
        rows,
        positions: together(|piece| &piece.positions),
        origins: together(|piece| &piece.origins),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray};

    use super::*;

    fn piece(values: std::ops::Range<i64>) -> Batch {
        let positions = values.clone().map(|value| value as u32).collect();
        let column = Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
        Batch::from_source(RecordBatch::try_from_iter([("value", column)]).unwrap(), positions)
    }

    #[test]
    fn pieces_are_sent_as_one_batch_in_their_order() {
        let budget = MemoryBudget::new(1 << 20);
        let (mut memory, mut made) = (MadeMemory::new(&budget), MadePieces::default());
        memory.begin(1);
        for first in 0..3000 {
            made.add(piece(first..first + 1), &mut memory).unwrap();
            assert!(made.pieces.len() < PIECES_MAX);
        }
        let batch = made.take(&mut memory).unwrap().unwrap();
        let values = batch.rows.column(0).as_primitive::<Int64Type>();
        assert!(values.values().iter().copied().eq(0..3000) && batch.positions.iter().copied().eq(0..3000));
        assert!(made.take(&mut memory).unwrap().is_none());
        assert_eq!(budget.held(), 3000 * 12);
        memory.begin(2);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn pieces_are_refused_at_the_limit_and_one_alone_is_not_counted() {
        let budget = MemoryBudget::new(1000).query(None);
        let (mut memory, mut made) = (MadeMemory::new(&budget), MadePieces::default());
        made.add(piece(0..1000), &mut memory).unwrap();
        assert_eq!(made.take(&mut memory).unwrap().unwrap().len(), 1000);
        made.add(piece(0..50), &mut memory).unwrap();
        let refused = made.add(piece(50..100), &mut memory).unwrap_err().message;
        assert!(refused.contains("--memory") && refused.starts_with(HOLDER), "{refused}");
    }
}
