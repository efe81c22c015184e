//! Columns as a module reads them, written into one piece of its memory.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::Limits;
use crate::batch_layout::{ALLOCATE, COLUMN_BYTES};
use crate::failure::Fault;
use crate::instances::Live;
use crate::numbers::{Numbers, width};

/// How many rows are computed at once.
const ROWS_MAX: usize = 8192;
/// What is passed takes at most this part of the memory.
const MEMORY_SHARE: usize = 4;
const ALIGNMENT: usize = 8;

/// Whether columns of a type can be passed.
pub(crate) fn is_passed(data_type: &DataType) -> bool {
    width(data_type).is_some() || matches!(data_type, DataType::Utf8 | DataType::Binary)
}

/// Refuses more rows than are computed at once.
pub(crate) fn check_rows(rows: usize) -> Result<(), Fault> {
    if rows > ROWS_MAX { Err(too_much("these are too many rows at once")) } else { Ok(()) }
}

fn too_much(what: &str) -> Fault {
    Fault::TooMuch(format!("{what}; define it with more: WITH (memory = ...)"))
}

/// The bytes of a piece of memory that is to hold descriptions, and then columns. `None`: too many to count.
pub(crate) struct PieceSize {
    bytes: Option<usize>,
}

impl PieceSize {
    /// A piece that begins with this many bytes.
    pub fn new(descriptions: usize) -> PieceSize {
        PieceSize { bytes: Some(aligned(descriptions)) }
    }

    /// Adds some bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: Option<usize>) -> PieceSize {
        let sum = |before: usize| before.checked_add(bytes?.checked_next_multiple_of(ALIGNMENT)?);
        PieceSize { bytes: self.bytes.and_then(sum) }
    }

    /// Adds columns. `may_be_null`: they have a validity, even if no row is NULL.
    #[must_use]
    pub fn with_columns(mut self, columns: &[ArrayRef], may_be_null: bool) -> PieceSize {
        for column in columns {
            let rows = column.len();
            if may_be_null || column.null_count() > 0 {
                self = self.with_bytes(Some(rows));
            }
            self = match width(column.data_type()) {
                Some(width) => self.with_bytes(rows.checked_mul(width)),
                None => self.with_bytes(Some(4 * (rows + 1))).with_bytes(Some(text_bytes(column.as_ref()))),
            };
        }
        self
    }

    /// Allocates the piece in the memory of a module.
    pub fn allocate(self, live: &mut Live, limits: &Limits) -> Result<Image, Fault> {
        let bytes = self.bytes.filter(|bytes| *bytes <= limits.memory_bytes_max / MEMORY_SHARE);
        let bytes = bytes.filter(|bytes| i32::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| too_much("its arguments are more than a quarter of its memory"))?;
        let base = allocate(live, bytes + ALIGNMENT)?;
        Ok(Image { base, bytes: vec![0; bytes], next: 0 })
    }
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

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// The bytes of all texts of a column.
fn text_bytes(column: &dyn Array) -> usize {
    let offsets = match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().offsets(),
        _ => column.as_binary::<i32>().offsets(),
    };
    (offsets[offsets.len() - 1] - offsets[0]) as usize
}

/// A piece of a module's memory, before it is written there.
pub(crate) struct Image {
    /// Where it is to begin.
    base: usize,
    bytes: Vec<u8>,
    next: usize,
}

impl Image {
    /// The next free bytes: where they begin in the piece.
    pub fn reserve(&mut self, bytes: usize) -> usize {
        let offset = self.next;
        self.next += aligned(bytes);
        offset
    }

    /// A place of the piece in the memory of the module.
    pub fn place(&self, offset: usize) -> usize {
        self.base + offset
    }

    /// Such a place as the code is given it: pointers are unsigned numbers of 32 bits, which a module sees as signed ones.
    pub fn pointer(&self, offset: usize) -> i32 {
        self.place(offset) as u32 as i32
    }

    /// Writes numbers of 32 bits.
    pub fn put_numbers(&mut self, offset: usize, numbers: impl IntoIterator<Item = u32>) {
        for (number, place) in numbers.into_iter().zip(self.bytes[offset..].chunks_exact_mut(4)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// Writes columns behind what is reserved, and their descriptions to a place.
    pub fn put_columns(
        &mut self,
        descriptions: usize,
        columns: &[ArrayRef],
        may_be_null: bool,
    ) -> Result<(), Fault> {
        for (index, column) in columns.iter().enumerate() {
            let offsets = self.put_column(column, may_be_null)?;
            let pointers = offsets.map(|offset| offset.map_or(0, |offset| self.place(offset) as u32));
            self.put_numbers(descriptions + index * COLUMN_BYTES, pointers);
        }
        Ok(())
    }

    /// Where validity, values and offsets stand.
    fn put_column(&mut self, column: &ArrayRef, may_be_null: bool) -> Result<[Option<usize>; 3], Fault> {
        let rows = column.len();
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let validity = (may_be_null || nulls.is_some()).then(|| self.reserve(rows));
        if let Some(validity) = validity {
            let bytes = &mut self.bytes[validity..validity + rows];
            bytes.iter_mut().enumerate().for_each(|(row, byte)| *byte = u8::from(is_valid(row)));
        }
        let Some(width) = width(column.data_type()) else {
            let offsets = self.reserve(4 * (rows + 1));
            let texts = self.reserve(text_bytes(column.as_ref()));
            self.put_texts(column.as_ref(), is_valid, offsets, texts);
            return Ok([validity, Some(texts), Some(offsets)]);
        };
        let values = self.reserve(rows * width);
        let numbers = Numbers::of(column.as_ref());
        let numbers = numbers.ok_or_else(|| Fault::Broken("a column has no numbers".to_owned()))?;
        numbers.put(&mut self.bytes[values..values + rows * width], is_valid);
        Ok([validity, Some(values), None])
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
            self.put_numbers(offsets + 4 * (row + 1), [end as u32]);
        }
    }

    /// Writes the piece to the memory.
    pub fn write(&self, live: &mut Live) -> Result<(), Fault> {
        let memory = live.memory()?;
        let outside = |_| Fault::Broken(format!("`{ALLOCATE}` gives memory that the module does not have"));
        memory.write(&mut live.store, self.base, &self.bytes).map_err(outside)
    }
}
