//! Looks up the values of a dictionary once, instead of those of every row.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{Array, ArrayRef, DictionaryArray, downcast_dictionary_array};
use arrow_buffer::ArrowNativeType;
use arrow_cast::cast;
use tidemill_core::error::Cause;

use super::index::Index;
use crate::keys::{NO_KEY, value_type};
use crate::stored_rows::kernel_error;

/// The entries for the values of the dictionary that was seen last.
#[derive(Debug, Default)]
pub(super) struct DictionaryCache {
    /// Kept alive, so that no other dictionary can have its address.
    values: Option<ArrayRef>,
    entries: Vec<u32>,
}

impl DictionaryCache {
    /// The entry of each row of a dictionary column.
    pub fn find(&mut self, index: &Index, column: &ArrayRef) -> Result<Vec<u32>, Cause> {
        let values = column.as_any_dictionary().values();
        if !self.is_of(values) {
            // Not worth it for few rows of a large dictionary.
            if values.len() > 2 * column.len() {
                let hydrated = cast(column, &value_type(column.data_type())).map_err(kernel_error)?;
                return index.find_single(&hydrated);
            }
            self.entries = index.find_single(values)?;
            self.values = Some(values.clone());
        }
        Ok(downcast_dictionary_array!(
            column => of_keys(column, &self.entries),
            _ => Vec::new(),
        ))
    }

    fn is_of(&self, values: &ArrayRef) -> bool {
        let is_same = |held: &ArrayRef| {
            std::sync::Arc::ptr_eq(held, values) || held.to_data().ptr_eq(&values.to_data())
        };
        self.values.as_ref().is_some_and(is_same)
    }
}

fn of_keys<K: ArrowDictionaryKeyType>(column: &DictionaryArray<K>, entries: &[u32]) -> Vec<u32> {
    let keys = column.keys();
    let entry = |key: &K::Native| entries.get(key.as_usize()).copied().unwrap_or(NO_KEY);
    let mut found: Vec<u32> = keys.values().iter().map(entry).collect();
    if let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) {
        for (entry, is_valid) in found.iter_mut().zip(nulls.iter()) {
            *entry = if is_valid { *entry } else { NO_KEY };
        }
    }
    found
}
