//! Ways to damage bytes.

use tidemill_testing::random::Random;

/// Where a length or a count ends to fit.
const NUMBERS: [u64; 14] = [
    0,
    1,
    7,
    63,
    64,
    65,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Numbers as text that readers get wrong.
const DIGITS: [&[u8]; 12] = [
    b"0",
    b"-0",
    b"-",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"1e400",
    b"1e-400",
    b"0.1e",
    b"00000000000000000000000000000001",
    b"123456789012345678901234567890.5",
];

/// What text is damaged with besides random bytes.
pub const SEPARATORS: [&[u8]; 24] = [
    b",",
    b"=",
    b" ",
    b"\n",
    b"\r\n",
    b"\r",
    b"\"",
    b"\"\"",
    b"\\",
    b"\\\\",
    b"\t",
    b"\0",
    b"#",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"null",
    b"true",
    b"\xef\xbb\xbf",
    b"\xc3\xa9",
    b"\xff",
    b"\\u0000",
];

/// Changes bytes in one to six ways; `others` are what pieces are taken from.
pub fn text(random: &mut Random, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..1 + random.index(6) {
        let at = random.index(bytes.len() + 1);
        match random.index(8) {
            0 => insert(bytes, at, random.one_of::<&[u8]>(&SEPARATORS)),
            1 => replace_number(random, bytes, at),
            2 => insert(bytes, at, &[random.next() as u8]),
            _ => any(random, bytes, others),
        }
    }
}

/// Changes bytes of a format with lengths and counts in one to four ways.
pub fn binary(random: &mut Random, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..1 + random.index(4) {
        match random.index(3) {
            0 => replace_field(random, bytes),
            1 => move_block(random, bytes),
            _ => any(random, bytes, others),
        }
    }
}

fn any(random: &mut Random, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    if bytes.is_empty() {
        return bytes.clone_from(&others[random.index(others.len())]);
    }
    let (at, length) = (random.index(bytes.len()), 1 + random.index(40));
    let end = (at + length).min(bytes.len());
    match random.index(8) {
        0 | 1 => bytes[at] ^= 1 << random.index(8),
        2 => bytes[at] = random.one_of(&[0, 1, 0x7f, 0x80, 0xff]),
        3 => drop(bytes.drain(at..end)),
        4 => bytes[at..end].fill(random.next() as u8),
        5 => bytes.truncate(at),
        6 => {
            let piece = bytes[at..end].to_vec();
            let target = random.index(bytes.len());
            insert(bytes, target, &piece);
        }
        _ => splice(random, bytes, others),
    }
}

/// Replaces a piece with one from another place of this file, or from another file.
fn splice(random: &mut Random, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let other = &others[random.index(others.len())];
    let from = random.index(other.len());
    let piece = &other[from..(from + random.index(200)).min(other.len())];
    let at = random.index(bytes.len() + 1);
    let end = if random.is_once_in(2) { at } else { (at + piece.len()).min(bytes.len()) };
    bytes.splice(at..end, piece.iter().copied());
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

/// Replaces the next digits behind `at` with others.
fn replace_number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else {
        return;
    };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = random.one_of(&DIGITS);
    bytes.splice(start..start + length, digits.iter().copied());
}

/// Replaces a field of 1, 2, 4 or 8 bytes with another number.
fn replace_field(random: &mut Random, bytes: &mut [u8]) {
    let width = random.one_of(&[1, 2, 4, 8]);
    let Some(last) = bytes.len().checked_sub(width) else { return };
    let at = random.index(last + 1);
    let at = if random.is_once_in(3) { at } else { at / 4 * 4 };
    let mut old = [0; 8];
    old[..width].copy_from_slice(&bytes[at..at + width]);
    let old = u64::from_le_bytes(old);
    let new = match random.index(4) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old.wrapping_mul(2),
        _ => random.one_of(&NUMBERS),
    };
    bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}

/// Changes blocks of 64 bytes, the alignment of records: lost, written elsewhere, written twice.
fn move_block(random: &mut Random, bytes: &mut Vec<u8>) {
    const BLOCK_BYTES: usize = 64;
    let blocks = bytes.len() / BLOCK_BYTES;
    let (from, to) = (random.index(blocks) * BLOCK_BYTES, random.index(blocks) * BLOCK_BYTES);
    let length = ((1 + random.index(8)) * BLOCK_BYTES).min(bytes.len() - from.max(to).min(bytes.len()));
    match random.index(3) {
        0 => bytes[to..to + length].fill(0),
        1 => bytes.copy_within(from..from + length, to),
        _ => drop(bytes.drain(to..to + length)),
    }
}
