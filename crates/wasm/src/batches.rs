//! Calls for a batch at a time: columns are written to the module's memory, and the result is read from there.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::Limits;
use crate::batch_layout::{ALLOCATE, COLUMN_BYTES};
use crate::failure::Fault;
use crate::instances::Live;
use crate::numbers::{Numbers, from_bytes, width};

/// How many rows are computed at once.
const ROWS_MAX: usize = 8192;
/// The arguments of a batch take at most this part of the memory.
const MEMORY_SHARE: usize = 4;
const ALIGNMENT: usize = 8;

/// Whether columns of a type can be passed.
pub(crate) fn is_passed(data_type: &DataType) -> bool {
    width(data_type).is_some() || matches!(data_type, DataType::Utf8 | DataType::Binary)
}

/// Calls a function with whole columns.
pub(crate) fn call(
    live: &mut Live,
    symbol: &str,
    arguments: &[ArrayRef],
    rows: usize,
    result: &DataType,
    limits: &Limits,
) -> Result<ArrayRef, Fault> {
    let too_much =
        |what: &str| Err(Fault::TooMuch(format!("{what}; define it with more: WITH (memory = ...)")));
    if rows > ROWS_MAX {
        return too_much("these are too many rows at once");
    }
    let Some(bytes) = size(arguments, rows).filter(|bytes| *bytes <= limits.memory_bytes_max / MEMORY_SHARE)
    else {
        return too_much("its arguments are more than a quarter of its memory");
    };
    live.refuel()?;
    let base = allocate(live, bytes + ALIGNMENT)?;
    let image = Image::of(arguments, rows, base, bytes)?;
    let memory = live.memory()?;
    let outside = |_| Fault::Broken(format!("`{ALLOCATE}` gives memory that the module does not have"));
    memory.write(&mut live.store, base, &image.bytes).map_err(outside)?;
    let described = arguments.len() * COLUMN_BYTES;
    let function = live.function(symbol)?;
    let call = function.typed::<(i32, i32, i32), ()>(&live.store);
    let call = call.map_err(|error| Fault::Broken(error.to_string()))?;
    // Pointers are unsigned numbers of 32 bits, which a module sees as signed ones.
    let pointer = |offset: usize| (base + offset) as u32 as i32;
    let values = (rows as i32, pointer(0), pointer(described));
    call.call(&mut live.store, values).map_err(|error| live.fault(&error))?;
    let memory = Memory { bytes: live.memory()?.data(&live.store) };
    memory.column(base + described, rows, result)
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// What the arguments and their descriptions take; `None` if that does not fit 32 bits.
fn size(arguments: &[ArrayRef], rows: usize) -> Option<usize> {
    let descriptions = aligned((arguments.len() + 1) * COLUMN_BYTES);
    let total = arguments.iter().try_fold(descriptions, |total, column| {
        let validity = if column.null_count() > 0 { aligned(rows) } else { 0 };
        let values = match width(column.data_type()) {
            Some(width) => aligned(rows.checked_mul(width)?),
            None => aligned(4 * (rows + 1)).checked_add(aligned(text_bytes(column.as_ref())))?,
        };
        total.checked_add(validity)?.checked_add(values)
    });
    total.filter(|bytes| i32::try_from(*bytes).is_ok())
}

/// The bytes of all texts of a column.
fn text_bytes(column: &dyn Array) -> usize {
    let offsets = match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().offsets(),
        _ => column.as_binary::<i32>().offsets(),
    };
    (offsets[offsets.len() - 1] - offsets[0]) as usize
}

/// Asks the module for memory; where it begins, aligned.
fn allocate(live: &mut Live, bytes: usize) -> Result<usize, Fault> {
    let function = live.function(ALLOCATE)?.typed::<i32, i32>(&live.store);
    let function = function.map_err(|error| Fault::Broken(error.to_string()))?;
    let asked = i32::try_from(bytes).map_err(|error| Fault::TooMuch(error.to_string()))?;
    let place = function.call(&mut live.store, asked).map_err(|error| live.fault(&error))?;
    match place as u32 as usize {
        0 => Err(Fault::TooMuch(format!("`{ALLOCATE}` gives no memory for {bytes} bytes"))),
        place => Ok(aligned(place)),
    }
}

/// The arguments as they are to stand in the memory from a place on.
struct Image {
    bytes: Vec<u8>,
}

impl Image {
    fn of(arguments: &[ArrayRef], rows: usize, base: usize, bytes: usize) -> Result<Image, Fault> {
        let mut image = Image { bytes: vec![0; bytes] };
        let mut next = aligned((arguments.len() + 1) * COLUMN_BYTES);
        for (index, column) in arguments.iter().enumerate() {
            let mut pointers = [0_usize; 3];
            let mut place = |pointer: usize, bytes: usize| {
                let offset = next;
                next += aligned(bytes);
                pointers[pointer] = base + offset;
                offset..offset + bytes
            };
            let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
            let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
            if nulls.is_some() {
                let validity = &mut image.bytes[place(0, rows)];
                validity.iter_mut().enumerate().for_each(|(row, byte)| *byte = u8::from(is_valid(row)));
            }
            match width(column.data_type()) {
                Some(width) => {
                    let numbers = Numbers::of(column.as_ref());
                    let numbers =
                        numbers.ok_or_else(|| Fault::Broken("a column has no numbers".to_owned()))?;
                    numbers.put(&mut image.bytes[place(1, rows * width)], is_valid);
                }
                None => {
                    let offsets = place(2, 4 * (rows + 1));
                    let texts = place(1, text_bytes(column.as_ref()));
                    image.put_texts(column.as_ref(), is_valid, offsets.start, texts.start);
                }
            }
            for (number, pointer) in pointers.iter().enumerate() {
                let at = index * COLUMN_BYTES + number * 4;
                image.bytes[at..at + 4].copy_from_slice(&(*pointer as u32).to_le_bytes());
            }
        }
        Ok(image)
    }

    fn put_texts(
        &mut self,
        column: &dyn Array,
        is_valid: impl Fn(usize) -> bool,
        offsets: usize,
        texts: usize,
    ) {
        let value = |row: usize| match column.data_type() {
            DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
            _ => column.as_binary::<i32>().value(row),
        };
        let mut end = 0;
        for row in 0..column.len() {
            if is_valid(row) {
                let text = value(row);
                self.bytes[texts + end..texts + end + text.len()].copy_from_slice(text);
                end += text.len();
            }
            let at = offsets + 4 * (row + 1);
            self.bytes[at..at + 4].copy_from_slice(&(end as u32).to_le_bytes());
        }
    }
}

/// The memory after a call. Everything that is read from it may be wrong.
struct Memory<'a> {
    bytes: &'a [u8],
}

impl Memory<'_> {
    fn read(&self, place: usize, bytes: usize, what: &str) -> Result<&[u8], Fault> {
        let end = place.checked_add(bytes);
        end.and_then(|end| self.bytes.get(place..end)).ok_or_else(|| {
            Fault::Broken(format!(
                "it gives {what} at {place} with {bytes} bytes, but its memory has {}",
                self.bytes.len()
            ))
        })
    }

    fn pointer(&self, place: usize) -> Result<usize, Fault> {
        let bytes = self.read(place, 4, "a result")?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }

    fn column(&self, place: usize, rows: usize, data_type: &DataType) -> Result<ArrayRef, Fault> {
        let validity = self.pointer(place)?;
        let values = self.pointer(place + 4)?;
        let nulls = match validity {
            0 => None,
            validity => {
                let valid = self.read(validity, rows, "validity")?.iter().map(|byte| *byte != 0);
                Some(NullBuffer::from_iter(valid))
            }
        };
        match width(data_type) {
            Some(width) => {
                let bytes = self.read(values, rows * width, "values")?;
                from_bytes(data_type, bytes, rows, nulls).map_err(Fault::Broken)
            }
            None => self.texts(self.pointer(place + 8)?, values, rows, data_type, nulls),
        }
    }

    fn texts(
        &self,
        offsets: usize,
        values: usize,
        rows: usize,
        data_type: &DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Fault> {
        let offsets = self.read(offsets, 4 * (rows + 1), "offsets")?;
        let offsets = offsets.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
        let mut offsets: Vec<i32> = offsets.collect();
        let (first, last) = (offsets[0], offsets[rows]);
        if first < 0 || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(Fault::Broken("it gives offsets of texts that do not grow".to_owned()));
        }
        let texts = values.saturating_add(first as usize);
        let texts = Buffer::from(self.read(texts, (last - first) as usize, "texts")?);
        offsets.iter_mut().for_each(|offset| *offset -= first);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        match data_type {
            DataType::Utf8 => {
                let texts = StringArray::try_new(offsets, texts, nulls);
                // One text that is not UTF-8 costs its row.
                Ok(Arc::new(texts.map_err(|_| Fault::Trap("it gives a text that is not UTF-8".to_owned()))?))
            }
            _ => {
                let bytes = BinaryArray::try_new(offsets, texts, nulls);
                Ok(Arc::new(bytes.map_err(|error| Fault::Broken(error.to_string()))?))
            }
        }
    }
}
