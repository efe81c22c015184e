//! Backslashes before separators.

use super::scan::find;

/// The first of the bytes without a backslash before it (the last of these bytes is the backslash itself); and whether
/// there was a backslash.
#[inline(always)]
pub(super) fn end_of_value<const N: usize>(
    text: &[u8],
    at: usize,
    end: usize,
    stops: [u8; N],
) -> (usize, bool) {
    let stop = find(text, at, end, stops);
    if stop >= end || text[stop] != b'\\' {
        return (stop, false);
    }
    (behind_backslashes(text, stop, end, stops), true)
}

/// Like [`end_of_value`], from the first backslash on.
#[cold]
fn behind_backslashes<const N: usize>(text: &[u8], mut at: usize, end: usize, stops: [u8; N]) -> usize {
    while at < end && text[at] == b'\\' {
        at = behind_backslash(text, at, end, stops[0] == b'"');
        at = find(text, at, end, stops);
    }
    at
}

/// Where to continue after a backslash and the character that it escapes. Only in a string can that be a backslash.
#[inline(always)]
pub(super) fn behind_backslash(text: &[u8], at: usize, end: usize, is_string: bool) -> usize {
    match text.get(at + 1) {
        Some(b'\\') if !is_string => at + 1,
        _ => (at + 2).min(end),
    }
}

/// Removes backslashes before these bytes; before others a backslash stands for itself.
pub(super) fn unescape(raw: &[u8], escaped: &[u8], target: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        match after.first() {
            Some(next) if byte == b'\\' && escaped.contains(next) => {
                target.push(*next);
                rest = &after[1..];
            }
            _ => {
                target.push(byte);
                rest = after;
            }
        }
    }
}

pub(super) fn plain(raw: &[u8], escaped: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(raw.len());
    unescape(raw, escaped, &mut name);
    name
}
