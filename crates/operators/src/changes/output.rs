//! Writes the changelog of a cycle.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::SchemaRef;
use tidemill_core::Output;
use tidemill_core::error::Cause;

use super::input::add;
use super::order::{Halves, compare, sorted};
use crate::encoded_rows::{RowBytes, RowCodec};
use crate::state_rows::batch;

/// The most rows that are decoded at a time.
const PIECE_ROWS: usize = 8192;

/// One half of the rows that are written: their codec, and the bytes of a change's half.
pub(crate) struct Half<'a, F> {
    /// The codec of its columns.
    pub codec: &'a RowCodec,
    /// Returns the bytes of a change.
    pub row: F,
}

/// Returns the half without columns.
pub(crate) fn no_columns<'a, C>(codec: &'a RowCodec) -> Half<'a, impl Fn(C) -> RowBytes<'a>> {
    Half { codec, row: |_| RowBytes::EMPTY }
}

/// Consolidates changes, and writes them to port 0: deletions before insertions, both in the order of their encoded
/// rows. A change is anything from which the two halves of its row can be found.
///
/// # Errors
/// If a sum of weights is too large, or the rows take too much memory.
pub(crate) fn write_changes<'a, 'b, C: Copy>(
    changes: &[(C, i64)],
    head: Half<'a, impl Fn(C) -> RowBytes<'a>>,
    tail: Half<'b, impl Fn(C) -> RowBytes<'b>>,
    output: &mut Output,
) -> Result<(), Cause> {
    let halves = |(change, _): &(C, i64)| ((head.row)(*change).identity, (tail.row)(*change).identity);
    let rows: Vec<Halves<'a, 'b>> = changes.iter().map(halves).collect();
    // Of equal rows, the one whose spelling is the smallest stays, whatever came first within the cycle.
    let spelling = |row: u32| {
        let change = changes[row as usize].0;
        ((head.row)(change).spelling, (tail.row)(change).spelling)
    };
    let order = sorted(&rows, |a, b| spelling(a).cmp(&spelling(b)));
    let (mut deletions, mut insertions) = (Vec::new(), Vec::new());
    for same in order.chunk_by(|a, b| compare(&rows, a, b) == Ordering::Equal) {
        let mut sum = 0;
        for (_, row) in same {
            sum = add(sum, changes[*row as usize].1)?;
        }
        let change = (changes[same[0].1 as usize].0, sum);
        match sum.cmp(&0) {
            Ordering::Less => deletions.push(change),
            Ordering::Equal => {}
            Ordering::Greater => insertions.push(change),
        }
    }
    let schema = SchemaRef::clone(output.port(0).schema());
    for piece in deletions.chunks(PIECE_ROWS).chain(insertions.chunks(PIECE_ROWS)) {
        let mut columns = head.codec.decode(piece.iter().map(|(change, _)| (head.row)(*change).spelling))?;
        columns.extend(tail.codec.decode(piece.iter().map(|(change, _)| (tail.row)(*change).spelling))?);
        let weights = Int64Array::from_iter_values(piece.iter().map(|(_, weight)| *weight));
        columns.push(Arc::new(weights) as ArrayRef);
        let positions = vec![output.end_position(); piece.len()];
        output.port(0).push_batch(batch(&schema, columns, piece.len())?, &positions)?;
    }
    Ok(())
}
