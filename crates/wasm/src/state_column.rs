//! One column of states: a value, or NULL, for each group.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::Failure;
use crate::numbers::{Numbers, from_bytes, width};

/// The most bytes of texts in one array.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;
/// What a text takes beside its bytes.
const TEXT_BYTES: usize = size_of::<Option<Box<[u8]>>>();

/// One column of states.
pub(crate) struct StateColumn {
    data_type: DataType,
    values: Values,
}

enum Values {
    /// Of equal widths, one after the other. What is not valid is 0.
    Numbers { width: usize, bytes: Vec<u8>, valid: Vec<bool> },
    /// Texts, or bytes, and how many bytes they have together.
    Texts { texts: Vec<Option<Box<[u8]>>>, bytes: usize },
}

impl StateColumn {
    pub fn new(data_type: &DataType) -> StateColumn {
        let values = match width(data_type) {
            Some(width) => Values::Numbers { width, bytes: Vec::new(), valid: Vec::new() },
            None => Values::Texts { texts: Vec::new(), bytes: 0 },
        };
        StateColumn { data_type: data_type.clone(), values }
    }

    /// Makes room for groups, whose states are NULL.
    pub fn resize(&mut self, groups: usize) {
        match &mut self.values {
            Values::Numbers { width, bytes, valid } => {
                bytes.resize(groups * *width, 0);
                valid.resize(groups, false);
            }
            Values::Texts { texts, .. } => texts.resize(groups, None),
        }
    }

    pub fn is_null(&self, group: u32) -> bool {
        match &self.values {
            Values::Numbers { valid, .. } => !valid[group as usize],
            Values::Texts { texts, .. } => texts[group as usize].is_none(),
        }
    }

    /// The values of groups.
    ///
    /// # Errors
    /// If their texts are too long for one array.
    pub fn gather(&self, groups: &[u32]) -> Result<ArrayRef, Failure> {
        match &self.values {
            Values::Numbers { width, bytes, valid } => {
                let mut gathered = Vec::with_capacity(groups.len() * width);
                for group in groups {
                    let from = *group as usize * width;
                    gathered.extend_from_slice(&bytes[from..from + width]);
                }
                let valid: NullBuffer = groups.iter().map(|group| valid[*group as usize]).collect();
                let nulls = Some(valid).filter(|nulls| nulls.null_count() > 0);
                from_bytes(&self.data_type, &gathered, groups.len(), nulls).map_err(Failure::Stop)
            }
            Values::Texts { texts, .. } => self.gather_texts(texts, groups),
        }
    }

    fn gather_texts(&self, texts: &[Option<Box<[u8]>>], groups: &[u32]) -> Result<ArrayRef, Failure> {
        let text = |group: &u32| texts[*group as usize].as_deref();
        let bytes: usize = groups.iter().filter_map(text).map(<[u8]>::len).sum();
        if bytes > TEXT_BYTES_MAX {
            let message = format!("the states of {} groups have {bytes} bytes", groups.len());
            return Err(Failure::Stop(format!(
                "{message}, more than fit one array; keep less for each group"
            )));
        }
        let gathered = BinaryArray::from_iter(groups.iter().map(text));
        match self.data_type {
            DataType::Utf8 => {
                let (offsets, bytes, nulls) = gathered.into_parts();
                let texts = StringArray::try_new(offsets, bytes, nulls);
                Ok(Arc::new(texts.map_err(|error| Failure::Stop(error.to_string()))?))
            }
            _ => Ok(Arc::new(gathered)),
        }
    }

    /// Sets the values of groups: row `i` is that of `groups[i]`.
    ///
    /// # Errors
    /// If the array has another type.
    pub fn scatter(&mut self, groups: &[u32], array: &ArrayRef) -> Result<(), Failure> {
        if *array.data_type() != self.data_type {
            let message = format!("a state of type {} was given as {}", self.data_type, array.data_type());
            return Err(Failure::Stop(message));
        }
        match &mut self.values {
            Values::Numbers { width, bytes, valid } => {
                let Some(numbers) = Numbers::of(array.as_ref()) else {
                    return Err(Failure::Stop("a state is not a number".to_owned()));
                };
                let mut given = vec![0; groups.len() * *width];
                numbers.put(&mut given, |row| array.is_valid(row));
                for (row, group) in groups.iter().enumerate() {
                    let (from, to) = (row * *width, *group as usize * *width);
                    bytes[to..to + *width].copy_from_slice(&given[from..from + *width]);
                    valid[*group as usize] = array.is_valid(row);
                }
            }
            Values::Texts { texts, bytes } => {
                for (row, group) in groups.iter().enumerate() {
                    let value = match array.data_type() {
                        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
                        _ => array.as_binary::<i32>().value(row),
                    };
                    let place = &mut texts[*group as usize];
                    *bytes -= place.as_ref().map_or(0, |text| text.len());
                    *place = array.is_valid(row).then(|| value.into());
                    *bytes += place.as_ref().map_or(0, |text| text.len());
                }
            }
        }
        Ok(())
    }

    /// Keeps only some groups, whose numbers ascend.
    pub fn keep(&mut self, groups: &[u32]) {
        match &mut self.values {
            Values::Numbers { width, bytes, valid } => {
                for (to, from) in groups.iter().map(|group| *group as usize).enumerate() {
                    bytes.copy_within(from * *width..(from + 1) * *width, to * *width);
                    valid[to] = valid[from];
                }
                bytes.truncate(groups.len() * *width);
                valid.truncate(groups.len());
            }
            Values::Texts { texts, bytes } => {
                for (to, from) in groups.iter().map(|group| *group as usize).enumerate() {
                    texts.swap(to, from);
                }
                texts.truncate(groups.len());
                *bytes = texts.iter().flatten().map(|text| text.len()).sum();
            }
        }
    }

    pub fn clear(&mut self) {
        match &mut self.values {
            Values::Numbers { bytes, valid, .. } => {
                bytes.clear();
                valid.clear();
            }
            Values::Texts { texts, bytes } => {
                texts.clear();
                *bytes = 0;
            }
        }
    }

    /// The memory that is held.
    pub fn bytes(&self) -> usize {
        match &self.values {
            Values::Numbers { bytes, valid, .. } => bytes.capacity() + valid.capacity(),
            Values::Texts { texts, bytes } => bytes + texts.capacity() * TEXT_BYTES,
        }
    }
}
