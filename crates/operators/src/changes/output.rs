//! Writes the changelog of a cycle.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::SchemaRef;
use tidemill_core::Output;
use tidemill_core::error::Cause;

use super::input::add;
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
    let mut order: Vec<(u128, u32)> = Vec::with_capacity(changes.len());
    order.extend(changes.iter().enumerate().map(|(index, (change, _))| {
        (prefix((head.row)(*change).identity, (tail.row)(*change).identity), index as u32)
    }));
    let of = |index: u32| changes[index as usize].0;
    // Halves are free of prefixes: if one is the beginning of another, they are equal.
    let compare = |a: &(u128, u32), b: &(u128, u32)| {
        a.0.cmp(&b.0).then_with(|| {
            let (a, b) = (of(a.1), of(b.1));
            let heads = (head.row)(a).identity.cmp((head.row)(b).identity);
            heads.then_with(|| (tail.row)(a).identity.cmp((tail.row)(b).identity))
        })
    };
    // Of equal rows, the one whose spelling is the smallest stays, whatever came first within the cycle.
    let spellings = |a: &(u128, u32), b: &(u128, u32)| {
        let (a, b) = (of(a.1), of(b.1));
        let heads = (head.row)(a).spelling.cmp((head.row)(b).spelling);
        heads.then_with(|| (tail.row)(a).spelling.cmp((tail.row)(b).spelling))
    };
    order.sort_unstable_by(|a, b| compare(a, b).then_with(|| spellings(a, b)));
    let (mut deletions, mut insertions) = (Vec::new(), Vec::new());
    for same in order.chunk_by(|a, b| compare(a, b) == Ordering::Equal) {
        let weights = same.iter().map(|(_, index)| changes[*index as usize].1);
        let mut sum = 0;
        for weight in weights {
            sum = add(sum, weight)?;
        }
        match sum.cmp(&0) {
            Ordering::Less => deletions.push((of(same[0].1), sum)),
            Ordering::Equal => {}
            Ordering::Greater => insertions.push((of(same[0].1), sum)),
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

/// The first bytes of a row as a number, by which most rows can be told apart.
#[inline]
fn prefix(head: &[u8], tail: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let of_head = head.len().min(16);
    bytes[..of_head].copy_from_slice(&head[..of_head]);
    let of_tail = tail.len().min(16 - of_head);
    bytes[of_head..of_head + of_tail].copy_from_slice(&tail[..of_tail]);
    u128::from_be_bytes(bytes)
}
