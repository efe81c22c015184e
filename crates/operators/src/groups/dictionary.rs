//! Groups by one dictionary column: each value of a dictionary is looked up once, each row by its code.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use tidemill_core::Cause;

use super::{Groups, NONE};
use crate::arrow_bug::arrow_bug;

/// The groups of a column of codes.
#[derive(Debug)]
pub(super) struct DictionaryTable {
    /// The groups of the dictionary's values.
    values: Box<Groups>,
    /// The dictionary to which `group_of_code` belongs.
    dictionary: Option<ArrayRef>,
    /// The group of each code, followed by that of NULL; [`NONE`] until it has occurred.
    group_of_code: Vec<u32>,
}

impl DictionaryTable {
    /// No groups of values of this type.
    pub fn new(values: &DataType) -> Result<Self, Cause> {
        let values = Box::new(Groups::new(std::slice::from_ref(values), NONE as usize)?);
        Ok(DictionaryTable { values, dictionary: None, group_of_code: Vec::new() })
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.values.bytes() + 4 * self.group_of_code.capacity()
    }

    /// Removes all groups.
    pub fn clear(&mut self) {
        self.values.clear();
        self.dictionary = None;
    }

    /// The keys of these groups, without a dictionary.
    pub fn keys(&self, ids: &[u32]) -> Result<ArrayRef, Cause> {
        let mut columns = self.values.keys(ids)?;
        columns.pop().ok_or_else(|| Cause::bug("groups of one column have no column"))
    }

    /// Appends the group of each row.
    pub fn intern(&mut self, column: &ArrayRef, ids: &mut Vec<u32>) -> Result<(), Cause> {
        let column = column.as_any_dictionary();
        self.use_dictionary(column.values());
        let null = column.values().len();
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        let codes = match null {
            0 => vec![0; column.len()],
            _ => column.normalized_keys(),
        };
        let code = |(row, code): (usize, &usize)| match &nulls {
            Some(nulls) if nulls.is_null(row) => null,
            _ => *code,
        };
        self.intern_new(codes.iter().enumerate().map(code), null)?;
        ids.extend(codes.iter().enumerate().map(|row| self.group_of_code[code(row)]));
        Ok(())
    }

    fn use_dictionary(&mut self, dictionary: &ArrayRef) {
        if !self.dictionary.as_ref().is_some_and(|known| Arc::ptr_eq(known, dictionary)) {
            self.group_of_code.clear();
            self.group_of_code.resize(dictionary.len() + 1, NONE);
            self.dictionary = Some(ArrayRef::clone(dictionary));
        }
    }

    /// Finds the groups of codes that occur for the first time, in the order of rows.
    fn intern_new(&mut self, codes: impl Iterator<Item = usize>, null: usize) -> Result<(), Cause> {
        /// The group is being looked up.
        const WANTED: u32 = NONE - 1;
        let Some(dictionary) = &self.dictionary else { return Ok(()) };
        let mut new = Vec::new();
        for code in codes {
            if self.group_of_code[code] == NONE {
                self.group_of_code[code] = WANTED;
                new.push(code as u32);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let indices =
            new.iter().map(|code| (*code as usize != null).then_some(*code)).collect::<UInt32Array>();
        let values = arrow_select::take::take(dictionary, &indices, None).map_err(arrow_bug("keys"))?;
        let mut groups = Vec::with_capacity(new.len());
        self.values.intern(&[values], new.len(), &mut groups)?;
        for (code, group) in new.iter().zip(groups) {
            self.group_of_code[*code as usize] = group;
        }
        Ok(())
    }
}
