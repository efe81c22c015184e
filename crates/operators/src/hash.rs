//! Hash functions without a seed: the same on every machine and in every run.

/// An odd number with bits spread evenly: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Another such number: the fraction of pi.
const PI: u64 = 0x243F_6A88_85A3_08D3;

/// Multiplies to 128 bits and folds them, so that every bit of the result depends on every bit of both factors.
#[inline(always)]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The hash of a number.
#[inline(always)]
pub(crate) fn of_integer(value: u64) -> u64 {
    fold(value ^ PI, GOLDEN)
}

/// The hash of some bytes.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let mut hash = (bytes.len() as u64) ^ PI;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = fold(hash ^ u64::from_le_bytes(*word), GOLDEN);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = fold(hash ^ u64::from_le_bytes(word), GOLDEN);
    }
    fold(hash, PI)
}
