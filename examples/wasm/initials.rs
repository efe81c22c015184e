//! The first letters of the words of a text, for a batch at a time: columns in, a column out.
//!
//! `rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -O -C strip=symbols initials.rs`

use std::slice::from_raw_parts;

/// A column in the memory of this module.
#[repr(C)]
pub struct Column {
    /// A byte for each row, 0: NULL; a null pointer: no row is NULL.
    validity: *const u8,
    /// All texts, one after the other.
    values: *const u8,
    /// Where each text begins and ends: one more than there are rows.
    offsets: *const u32,
}

/// Memory for the arguments. It is never freed: each batch has a memory of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tidemill_allocate(bytes: usize) -> *mut u8 {
    Vec::leak(vec![0_u8; bytes]).as_mut_ptr()
}

/// # Safety
/// The caller passes one column of texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn initials(rows: usize, arguments: *const Column, result: *mut Column) {
    let texts = unsafe { &*arguments };
    let offsets = unsafe { from_raw_parts(texts.offsets, rows + 1) };
    let (mut letters, mut ends) = (String::new(), vec![0_u32]);
    for row in offsets.windows(2) {
        let (from, to) = (row[0] as usize, row[1] as usize);
        let text = unsafe { from_raw_parts(texts.values.add(from), to - from) };
        let text = std::str::from_utf8(text).expect("texts are UTF-8");
        letters.extend(text.split_whitespace().filter_map(|word| word.chars().next()));
        ends.push(letters.len() as u32);
    }
    // NULL stays NULL.
    let validity = texts.validity;
    let (values, offsets) = (letters.leak().as_ptr(), ends.leak().as_ptr());
    unsafe { result.write(Column { validity, values, offsets }) };
}
