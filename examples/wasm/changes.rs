//! A function of rows: those whose text differs from the one before of the same key, with that one. The state is the last text.
//!
//! `rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -O -C strip=symbols changes.rs`

use std::slice::from_raw_parts;

/// A column in the memory of this module.
#[repr(C)]
pub struct Column {
    /// A byte for each row, 0: NULL; a null pointer: no row is NULL.
    validity: *const u8,
    /// The values, or all texts one after the other.
    values: *const u8,
    /// Of texts: where each begins and ends; one more than there are rows.
    offsets: *const u32,
}

/// The rows that are given, which have three columns here.
#[repr(C)]
pub struct Output {
    rows: usize,
    /// For each of them, the row that it comes from.
    from: *const u32,
    columns: [Column; 3],
}

/// Memory for the arguments. It is never freed: each batch has a memory of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tidemill_allocate(bytes: usize) -> *mut u8 {
    Vec::leak(vec![0_u8; bytes]).as_mut_ptr()
}

impl Column {
    /// The text of a row, unless it is NULL.
    unsafe fn text(&self, row: usize) -> Option<&'static str> {
        unsafe {
            if !self.validity.is_null() && *self.validity.add(row) == 0 {
                return None;
            }
            let (from, to) = (*self.offsets.add(row) as usize, *self.offsets.add(row + 1) as usize);
            let text = from_raw_parts(self.values.add(from), to - from);
            Some(std::str::from_utf8(text).expect("texts are UTF-8"))
        }
    }

    /// A column of texts.
    fn of<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Column {
        let (mut validity, mut values, mut offsets) = (Vec::new(), String::new(), vec![0_u32]);
        for text in texts {
            validity.push(u8::from(text.is_some()));
            values.push_str(text.unwrap_or_default());
            offsets.push(values.len() as u32);
        }
        Column {
            validity: validity.leak().as_ptr(),
            values: values.into_bytes().leak().as_ptr(),
            offsets: offsets.leak().as_ptr(),
        }
    }
}

/// # Safety
/// The caller passes keys and texts, the group of each row, and the last texts of the groups.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn changes(
    rows: usize,
    arguments: *const Column,
    group_of_row: *const u32,
    groups: usize,
    state: *mut Column,
    output: *mut Output,
) {
    let [keys, texts] = unsafe { [&*arguments, &*arguments.add(1)] };
    let mut last: Vec<Option<&str>> = (0..groups).map(|group| unsafe { (*state).text(group) }).collect();
    let (mut from, mut before) = (Vec::new(), Vec::new());
    for (row, group) in unsafe { from_raw_parts(group_of_row, rows) }.iter().enumerate() {
        let (text, last) = (unsafe { texts.text(row) }, &mut last[*group as usize]);
        if text.is_some() && text != *last {
            from.push(row as u32);
            before.push(*last);
            *last = text;
        }
    }
    let rows_of =
        |column: &'static Column| Column::of(from.iter().map(|row| unsafe { column.text(*row as usize) }));
    let columns = [rows_of(keys), Column::of(before.into_iter()), rows_of(texts)];
    unsafe {
        state.write(Column::of(last.into_iter()));
        output.write(Output { rows: from.len(), from: from.leak().as_ptr(), columns });
    }
}
