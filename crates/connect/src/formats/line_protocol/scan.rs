//! Searches for separators and compares names, many bytes at a time.

use super::block::{BLOCK_BYTES, first_in};

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Eight bytes as a number, with the first byte lowest; `None` near the end of the text.
#[inline(always)]
pub(super) fn load(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The first of the wanted bytes in `at..end`; `end` if there is none. The text may continue after `end`.
#[inline(always)]
pub(super) fn find<const N: usize>(text: &[u8], mut at: usize, end: usize, wanted: [u8; N]) -> usize {
    while at < end {
        let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk()) else {
            let rest = text[at..end].iter().position(|byte| wanted.contains(byte));
            return rest.map_or(end, |offset| at + offset);
        };
        let offset = first_in(block, wanted);
        if offset < BLOCK_BYTES {
            return end.min(at + offset);
        }
        at += BLOCK_BYTES;
    }
    end
}

/// A name that is compared with the bytes of a text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    bytes: Box<[u8]>,
    /// The first eight bytes, and which of them count.
    head: u64,
    mask: u64,
    /// The last eight bytes, if there are as many.
    tail: u64,
}

impl Pattern {
    /// `bytes`: the name and what must follow it.
    pub(super) fn new(bytes: Vec<u8>) -> Pattern {
        let count = bytes.len().min(8);
        let mut head = [0; 8];
        head[..count].copy_from_slice(&bytes[..count]);
        let mask = if count == 8 { u64::MAX } else { (1 << (count * 8)) - 1 };
        let tail = bytes.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Pattern { bytes: bytes.into(), head: u64::from_le_bytes(head), mask, tail }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is at this position.
    #[inline(always)]
    pub(super) fn is_at(&self, text: &[u8], at: usize) -> bool {
        match load(text, at) {
            Some(word) if (word ^ self.head) & self.mask != 0 => false,
            Some(_) if self.bytes.len() <= 8 => true,
            Some(_) if self.bytes.len() <= 16 => load(text, at + self.bytes.len() - 8) == Some(self.tail),
            _ => text.get(at..at + self.bytes.len()) == Some(&self.bytes[..]),
        }
    }
}

/// Eight times the digit zero; with this removed, digits are zero to nine.
pub(super) const ZEROS: u64 = LOW_BITS * b'0' as u64;

/// How many of the eight bytes are leading digits, and their value.
#[inline(always)]
pub(super) fn leading_digits(word: u64) -> (usize, u64) {
    let digits = word ^ ZEROS;
    let count = (no_digits(digits).trailing_zeros() / 8) as usize;
    // The first digit is the lowest byte: pushed up, zeros come before it.
    (count, eight_digits(if count == 0 { 0 } else { digits << (64 - count * 8) }))
}

/// The top bits of the bytes that are more than nine. Bytes above such a byte may be marked wrongly.
#[inline(always)]
pub(super) fn no_digits(word: u64) -> u64 {
    // What is above nine is carried into the top bit, or has it.
    (word.wrapping_add(LOW_BITS * 118) | word) & HIGH_BITS
}

/// The value of eight bytes of zero to nine, the lowest first.
#[inline(always)]
pub(super) fn eight_digits(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_wanted_byte_is_found(text in "[a-d,= \\u{e9}]{0,40}", from in 0usize..20, to in 0usize..40) {
            let text = text.as_bytes();
            let (at, end) = (from.min(text.len()), to.min(text.len()));
            let found = (at..end).find(|at| b",=".contains(&text[*at])).unwrap_or(end.max(at));
            prop_assert_eq!(find(text, at, end.max(at), *b",="), found);
        }

        #[test]
        fn leading_digits_are_read(text in "[0-9]{0,8}", bytes in proptest::array::uniform8(any::<u8>())) {
            let mut mixed = bytes;
            mixed[..text.len()].copy_from_slice(text.as_bytes());
            let count = mixed.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let value = mixed[..count].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
            prop_assert_eq!(leading_digits(u64::from_le_bytes(mixed)), (count, value));
        }

        #[test]
        fn a_pattern_is_where_its_bytes_are(name in "[ab]{1,20}", text in "[ab]{0,24}", at in 0usize..28) {
            let expected = text.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(name.as_bytes()));
            prop_assert_eq!(Pattern::new(name.clone().into_bytes()).is_at(text.as_bytes(), at), expected);
            let with_name = format!("{text}{name}{text}");
            prop_assert!(Pattern::new(name.into_bytes()).is_at(with_name.as_bytes(), text.len()));
        }
    }
}
