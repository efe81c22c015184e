//! The order of encoded rows.

use std::cmp::Ordering;

/// The bytes of a row: its two halves. Halves are free of prefixes: if one is the beginning of another, they are equal.
pub(super) type Halves<'a, 'b> = (&'a [u8], &'b [u8]);

/// A row with 8 of its bytes, by which most rows can be told apart.
pub(super) type Keyed = (u64, u32);

/// With fewer rows, comparing them is faster than counting their bytes.
const COUNTING_ROWS: usize = 256;

/// With fewer rows that are alike in 8 bytes, comparing all of them is faster than looking for the next 8.
const LEVEL_ROWS: usize = 4;

/// After this many times 8 bytes, rows that are still alike are compared.
const LEVELS: usize = 8;

/// By how many bytes rows are sorted before they are compared. Most of some ten thousand rows differ in them.
const COUNTING_BYTES: usize = 3;

/// Returns the numbers of rows in the order of their bytes. Equal rows are in the order that `ties` gives them, and have the
/// same key; so do others.
pub(super) fn sorted(rows: &[Halves<'_, '_>], ties: impl Fn(u32, u32) -> Ordering) -> Vec<Keyed> {
    let mut order: Vec<Keyed> = (0..rows.len() as u32).map(|row| (0, row)).collect();
    sort_level(rows, &mut order, 0, &ties);
    order
}

/// Sorts rows by the 8 bytes that follow those which all of them have in common, and those that are alike in these in the same
/// way.
fn sort_level(
    rows: &[Halves<'_, '_>],
    order: &mut [Keyed],
    level: usize,
    ties: &impl Fn(u32, u32) -> Ordering,
) {
    let common = common_prefix(order.iter().map(|(_, row)| rows[*row as usize]));
    order.iter_mut().for_each(|(key, row)| *key = key_behind(rows[*row as usize], common));
    sort(order, |a, b| a.0.cmp(&b.0));
    for alike in order.chunk_by_mut(|a, b| a.0 == b.0).filter(|alike| alike.len() > 1) {
        if alike.len() < LEVEL_ROWS || level == LEVELS {
            alike.sort_unstable_by(|a, b| compare(rows, a, b).then_with(|| ties(a.1, b.1)));
        } else {
            sort_level(rows, alike, level + 1, ties);
        }
    }
}

/// Returns the rows with the 8 bytes that follow those that all rows have in common.
pub(super) fn keyed(rows: &[Halves<'_, '_>]) -> Vec<Keyed> {
    let common = common_prefix(rows.iter().copied());
    rows.iter().zip(0..).map(|(row, number)| (key_behind(*row, common), number)).collect()
}

/// Sorts rows by a comparison that compares their keys first.
pub(super) fn sort(order: &mut [Keyed], by: impl Fn(&Keyed, &Keyed) -> Ordering) {
    let mask = if order.len() < COUNTING_ROWS { 0 } else { sort_by_first_bytes(order) };
    for alike in order.chunk_by_mut(|a, b| a.0 & mask == b.0 & mask) {
        if alike.len() > 1 {
            alike.sort_unstable_by(&by);
        }
    }
}

/// Compares two rows by their keys, and if these are equal by all of their bytes.
#[inline]
pub(super) fn compare(rows: &[Halves<'_, '_>], a: &Keyed, b: &Keyed) -> Ordering {
    a.0.cmp(&b.0).then_with(|| {
        let (a, b) = (rows[a.1 as usize], rows[b.1 as usize]);
        compare_bytes(a.0, b.0).then_with(|| compare_bytes(a.1, b.1))
    })
}

/// Compares bytes. Often they are those of the same row. The C library takes long to compare no bytes at the address of an
/// empty slice, which is not mapped: the processor suppresses the fault of a masked load.
#[inline]
fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
    if std::ptr::eq(a, b) {
        Ordering::Equal
    } else if a.is_empty() || b.is_empty() {
        a.len().cmp(&b.len())
    } else {
        a.cmp(b)
    }
}

/// Sorts by the first bytes of the keys that are not the same in all of them, the last of these bytes first. Returns the bits by
/// which the keys are in order.
fn sort_by_first_bytes(order: &mut [Keyed]) -> u64 {
    let first = order.first().map_or(0, |keyed| keyed.0);
    let differing = order.iter().fold(0, |differing, keyed| differing | (keyed.0 ^ first));
    let shifts = (0..8).rev().map(|byte| 8 * byte).filter(|shift| differing >> shift & 0xFF != 0);
    let shifts: Vec<u32> = shifts.take(COUNTING_BYTES).collect();
    let mut room = vec![(0, 0); order.len()];
    let (mut from, mut to) = (&mut *order, &mut room[..]);
    for shift in shifts.iter().rev() {
        let byte = |keyed: &Keyed| (keyed.0 >> shift & 0xFF) as usize;
        let mut places = [0_usize; 256];
        from.iter().for_each(|keyed| places[byte(keyed)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for keyed in from.iter() {
            let place = &mut places[byte(keyed)];
            to[*place] = *keyed;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    if shifts.len() % 2 == 1 {
        order.copy_from_slice(&room);
    }
    shifts.last().map_or(0, |shift| u64::MAX << shift)
}

/// Returns how many of their first bytes all rows have in common.
fn common_prefix<'a, 'b>(mut rows: impl Iterator<Item = Halves<'a, 'b>>) -> usize {
    let Some((first_head, first_tail)) = rows.next() else { return 0 };
    let first = [first_head, first_tail].concat();
    let mut common = first.len();
    for (head, tail) in rows {
        let of_head = common.min(head.len());
        let (start, rest) = first[..common].split_at(of_head);
        if !std::ptr::eq(head, first_head) && !is_prefix(start, head) {
            common = head.iter().zip(start).take_while(|(a, b)| a == b).count();
        } else if !is_prefix(rest, tail) {
            common = of_head + tail.iter().zip(rest).take_while(|(a, b)| a == b).count();
        }
    }
    common
}

/// Returns whether bytes begin with these. As in [`compare_bytes`], no bytes are never compared.
#[inline]
fn is_prefix(prefix: &[u8], bytes: &[u8]) -> bool {
    prefix.is_empty() || bytes.starts_with(prefix)
}

/// Returns the 8 bytes of a row behind those that all rows have in common.
#[inline]
fn key_behind((head, tail): Halves<'_, '_>, common: usize) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle: the sort of the standard library over whole rows. Fixed lengths make the halves free of prefixes.
        #[test]
        fn rows_are_in_the_order_of_their_bytes(
            few in any::<bool>(),
            bytes in prop::collection::vec(prop::array::uniform12(0..3_u8), 0..1200),
            middle in 0..12_usize,
            same in 0..12_usize,
        ) {
            let mut rows = bytes;
            rows.iter_mut().for_each(|row| row[..same].fill(7));
            rows.truncate(if few { 100 } else { 1200 });
            let halves: Vec<Halves<'_, '_>> = rows.iter().map(|row| row.split_at(middle)).collect();
            // Of equal rows, the last one first.
            let order: Vec<u32> = sorted(&halves, |a, b| b.cmp(&a)).iter().map(|keyed| keyed.1).collect();
            let mut wanted: Vec<u32> = (0..rows.len() as u32).collect();
            wanted.sort_by(|a, b| rows[*a as usize].cmp(&rows[*b as usize]).then(b.cmp(a)));
            prop_assert_eq!(order, wanted);
        }
    }
}
