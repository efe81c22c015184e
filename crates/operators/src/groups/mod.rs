//! Groups, which map the key columns of rows to dense numbers.
//!
//! The state of an aggregation is stored in arrays indexed by group, so the first step for every batch replaces the
//! keys of each row by the number of its group. Groups are numbered in the order in which they first occur.
//!
//! Joins and running functions number their keys with `keys.rs` instead. They look keys up without adding them, remove
//! single keys and renumber the others, and let NULL equal nothing. Groups do none of that: they are cleared as a whole and
//! give their keys back as columns, so each kind of column has its own table here, without a branch for what
//! aggregates never ask.

mod dictionary;
mod integers;
mod key_rows;
mod texts;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use tidemill_core::{Cause, StateLimit};

use dictionary::DictionaryTable;
use integers::IntegerTable;
use key_rows::RowTable;
use texts::TextTable;

/// No group.
const NONE: u32 = u32::MAX;

/// Numbers the distinct keys of rows.
///
/// Keys are equal if all of their columns are; NULL equals NULL, 0.0 equals -0.0, and NaN equals NaN.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, StringArray};
/// use arrow_schema::DataType;
/// use tidemill_operators::Groups;
///
/// let mut groups = Groups::new(&[DataType::Utf8], 1000).unwrap();
/// let names = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b")])) as ArrayRef;
/// let mut ids = Vec::new();
/// groups.intern(&[names], 4, &mut ids).unwrap();
/// assert_eq!(ids, [0, 1, 2, 0]);
/// let keys = groups.keys(&[2, 1]).unwrap();
/// assert_eq!(keys[0].as_ref(), &StringArray::from(vec![Some("a"), None]));
/// ```
#[derive(Debug)]
pub struct Groups {
    types: Vec<DataType>,
    groups_max: usize,
    table: Table,
}

#[derive(Debug)]
enum Table {
    /// No key columns: all rows form one group, which exists as soon as there is a row.
    Single {
        is_there: bool,
    },
    Integers(IntegerTable),
    Dictionary(DictionaryTable),
    Texts(TextTable),
    Rows(RowTable),
}

impl Groups {
    /// No groups yet, with keys of these types, and at most `groups_max` of them.
    ///
    /// # Errors
    /// If values of a type cannot be compared.
    pub fn new(types: &[DataType], groups_max: usize) -> Result<Groups, Cause> {
        let table = match types {
            [] => Table::Single { is_there: false },
            [DataType::Dictionary(_, values)] => Table::Dictionary(DictionaryTable::new(values)?),
            [single] if IntegerTable::supports(single) => Table::Integers(IntegerTable::new(single)),
            [single] if TextTable::supports(single) => Table::Texts(TextTable::new(single)),
            types => Table::Rows(RowTable::new(types)?),
        };
        Ok(Groups { types: types.to_vec(), groups_max: groups_max.min(NONE as usize), table })
    }

    /// Replaces `ids` by the group of each of these rows. `rows` is their number, because there may be no columns.
    ///
    /// # Errors
    /// If there are then more than `groups_max` groups, or a column has a different type than declared (a bug).
    pub fn intern(&mut self, keys: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<(), Cause> {
        self.check_types(keys)?;
        ids.clear();
        match &mut self.table {
            Table::Single { is_there } => {
                *is_there |= rows > 0;
                ids.resize(rows, 0);
            }
            Table::Integers(table) => table.intern(&keys[0], ids)?,
            Table::Dictionary(table) => table.intern(&keys[0], ids)?,
            Table::Texts(table) => table.intern(&keys[0], ids),
            Table::Rows(table) => table.intern(keys, ids)?,
        }
        if self.len() <= self.groups_max { Ok(()) } else { Err(too_many_groups(self.groups_max)) }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        match &self.table {
            Table::Single { is_there } => usize::from(*is_there),
            Table::Integers(table) => table.len(),
            Table::Dictionary(table) => table.len(),
            Table::Texts(table) => table.len(),
            Table::Rows(table) => table.len(),
        }
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of these groups: a column for each key, a row for each group.
    ///
    /// # Errors
    /// If a dictionary of the declared type cannot hold the keys.
    pub fn keys(&self, ids: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        let columns = match &self.table {
            Table::Single { .. } => Vec::new(),
            Table::Integers(table) => vec![table.keys(ids)?],
            Table::Dictionary(table) => vec![table.keys(ids)?],
            Table::Texts(table) => vec![table.keys(ids)?],
            Table::Rows(table) => table.keys(ids)?,
        };
        let typed = |(column, data_type): (ArrayRef, &DataType)| {
            if column.data_type() == data_type {
                Ok(column)
            } else {
                arrow_cast::cast(&column, data_type).map_err(|error| {
                    Cause::user(format!(
                        "the keys do not fit {data_type} ({error}); cast the key to its values' type"
                    ))
                    .with_source(error)
                })
            }
        };
        columns.into_iter().zip(&self.types).map(typed).collect()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        match &self.table {
            Table::Single { .. } => 0,
            Table::Integers(table) => table.bytes(),
            Table::Dictionary(table) => table.bytes(),
            Table::Texts(table) => table.bytes(),
            Table::Rows(table) => table.bytes(),
        }
    }

    /// Removes all groups and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        match &mut self.table {
            Table::Single { is_there } => *is_there = false,
            Table::Integers(table) => table.clear(),
            Table::Dictionary(table) => table.clear(),
            Table::Texts(table) => table.clear(),
            Table::Rows(table) => table.clear(),
        }
    }

    fn check_types(&self, keys: &[ArrayRef]) -> Result<(), Cause> {
        let are_right = keys.len() == self.types.len()
            && keys.iter().zip(&self.types).all(|(column, data_type)| column.data_type() == data_type);
        if are_right {
            return Ok(());
        }
        let given = keys.iter().map(|column| column.data_type()).collect::<Vec<_>>();
        Err(Cause::bug(format!("groups with keys of {:?} got {given:?}", self.types)))
    }
}

/// The error for more groups than allowed.
pub(crate) fn too_many_groups(groups_max: usize) -> Cause {
    StateLimit::MAX_GROUPS.reached(format!(
        "more than {groups_max} groups in one partition; group by fewer values, close windows sooner, or \
         raise max_groups"
    ))
}
