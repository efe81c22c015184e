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

/// Whether a row can occur several times in a list of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Each row occurs once, with a weight that is not 0.
    None,
    /// A row may occur several times, and its weights may add up to 0.
    Possible,
}

/// The bytes of a row: its two halves.
type Halves<'a, 'b> = (&'a [u8], &'b [u8]);

/// Consolidates changes, and writes them to port 0: deletions before insertions, both in the order of their encoded
/// rows. A change is anything from which the two halves of its row can be found.
///
/// # Errors
/// If a sum of weights is too large, or the rows take too much memory.
pub(crate) fn write_changes<'a, 'b, C: Copy>(
    changes: &[(C, i64)],
    repetition: Repetition,
    head: Half<'a, impl Fn(C) -> RowBytes<'a>>,
    tail: Half<'b, impl Fn(C) -> RowBytes<'b>>,
    output: &mut Output,
) -> Result<(), Cause> {
    let halves = |(change, _): &(C, i64)| ((head.row)(*change).identity, (tail.row)(*change).identity);
    let rows: Vec<Halves<'a, 'b>> = changes.iter().map(halves).collect();
    let common = common_prefix(&rows);
    let key = |row: u32| (key(rows[row as usize], common), row);
    let (mut deletions, mut insertions) = (Vec::new(), Vec::new());
    if repetition == Repetition::None {
        let (mut going, mut coming): (Vec<_>, Vec<_>) =
            (0..rows.len() as u32).map(key).partition(|(_, row)| changes[*row as usize].1 < 0);
        for (order, sorted) in [(&mut going, &mut deletions), (&mut coming, &mut insertions)] {
            order.sort_unstable_by(|a, b| compare(&rows, a, b));
            sorted.extend(order.iter().map(|(_, row)| changes[*row as usize]));
        }
    } else {
        let mut order: Vec<(u64, u32)> = (0..rows.len() as u32).map(key).collect();
        // Of equal rows, the one whose spelling is the smallest stays, whatever came first within the cycle.
        let spelling = |row: u32| {
            let change = changes[row as usize].0;
            ((head.row)(change).spelling, (tail.row)(change).spelling)
        };
        order.sort_unstable_by(|a, b| compare(&rows, a, b).then_with(|| spelling(a.1).cmp(&spelling(b.1))));
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

/// Compares two rows by their keys, and if these are equal by all of their bytes.
#[inline]
fn compare(rows: &[Halves<'_, '_>], a: &(u64, u32), b: &(u64, u32)) -> Ordering {
    a.0.cmp(&b.0).then_with(|| {
        // Halves are free of prefixes: if one is the beginning of another, they are equal.
        let (a, b) = (rows[a.1 as usize], rows[b.1 as usize]);
        a.0.cmp(b.0).then_with(|| a.1.cmp(b.1))
    })
}

/// Returns how many of their first bytes all rows have in common.
fn common_prefix(rows: &[Halves<'_, '_>]) -> usize {
    let Some((first, others)) = rows.split_first() else { return 0 };
    let first = [first.0, first.1].concat();
    let mut common = first.len();
    for (head, tail) in others {
        let of_head = common.min(head.len());
        if head[..of_head] != first[..of_head] {
            common = head.iter().zip(&first).take_while(|(a, b)| a == b).count();
            continue;
        }
        let rest = &first[of_head..common];
        if !tail.starts_with(rest) {
            common = of_head + tail.iter().zip(rest).take_while(|(a, b)| a == b).count();
        }
    }
    common
}

/// Returns the 8 bytes of a row behind those that all rows have in common: most rows can be told apart by them.
#[inline]
fn key((head, tail): Halves<'_, '_>, common: usize) -> u64 {
    if let Some(bytes) = head.get(common..).and_then(|rest| rest.first_chunk()) {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    let of_head = head.get(common..).unwrap_or_default();
    bytes[..of_head.len()].copy_from_slice(of_head);
    let of_tail = tail.get(common.saturating_sub(head.len())..).unwrap_or_default();
    let count = of_tail.len().min(8 - of_head.len());
    bytes[of_head.len()..of_head.len() + count].copy_from_slice(&of_tail[..count]);
    u64::from_be_bytes(bytes)
}
