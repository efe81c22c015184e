//! Reads what the code left in the memory of a module.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::failure::Fault;
use crate::numbers::{from_bytes, width};

/// The memory after a call. Everything that is read from it may be wrong.
pub(crate) struct Memory<'a> {
    pub bytes: &'a [u8],
}

impl Memory<'_> {
    pub fn read(&self, place: usize, bytes: usize, what: &str) -> Result<&[u8], Fault> {
        let end = place.checked_add(bytes);
        end.and_then(|end| self.bytes.get(place..end)).ok_or_else(|| {
            Fault::Broken(format!(
                "it gives {what} at {place} with {bytes} bytes, but its memory has {}",
                self.bytes.len()
            ))
        })
    }

    /// A number of 32 bits without a sign.
    pub fn pointer(&self, place: usize) -> Result<usize, Fault> {
        let bytes = self.read(place, 4, "a result")?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }

    /// A column, whose description is at a place.
    pub fn column(&self, place: usize, rows: usize, data_type: &DataType) -> Result<ArrayRef, Fault> {
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
