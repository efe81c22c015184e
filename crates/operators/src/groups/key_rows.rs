//! Groups by columns of any types: keys are byte strings that are equal if and only if the keys are.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use hashbrown::HashTable;
use tidemill_core::Cause;

use crate::arrow_bug::arrow_bug;
use crate::hash;
use crate::normal::normalise;

/// The groups of rows of key columns.
#[derive(Debug)]
pub(super) struct RowTable {
    converter: RowConverter,
    /// The types of the columns without their dictionaries.
    types: Vec<DataType>,
    /// The keys of the current rows.
    given: Rows,
    /// The key of each group, and its hash.
    keys: Rows,
    hashes: Vec<u64>,
    groups: HashTable<u32>,
}

impl RowTable {
    /// No groups of keys of these types.
    pub fn new(types: &[DataType]) -> Result<Self, Cause> {
        let plain = |data_type: &DataType| match data_type {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        };
        let types = types.iter().map(plain).collect::<Vec<_>>();
        let fields = types.iter().cloned().map(SortField::new).collect();
        let converter = RowConverter::new(fields).map_err(|error| {
            Cause::user(format!(
                "rows cannot be grouped by {types:?} ({error}); group by columns of other types"
            ))
            .with_source(error)
        })?;
        let (given, keys) = (converter.empty_rows(0, 0), converter.empty_rows(0, 0));
        Ok(RowTable { converter, types, given, keys, hashes: Vec::new(), groups: HashTable::new() })
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.given.size() + self.keys.size() + 8 * self.hashes.capacity() + self.groups.allocation_size()
    }

    /// Removes all groups.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.hashes.clear();
        self.groups.clear();
    }

    /// The keys of these groups.
    pub fn keys(&self, ids: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        let rows = ids.iter().map(|id| self.keys.row(*id as usize));
        self.converter.convert_rows(rows).map_err(arrow_bug("keys"))
    }

    /// Appends the group of each row.
    pub fn intern(&mut self, columns: &[ArrayRef], ids: &mut Vec<u32>) -> Result<(), Cause> {
        let columns = columns.iter().zip(&self.types).map(|(column, plain)| normalise(column, plain));
        let columns = columns.collect::<Result<Vec<_>, Cause>>()?;
        self.given.clear();
        self.converter.append(&mut self.given, &columns).map_err(arrow_bug("keys"))?;
        let (keys, hashes, groups) = (&mut self.keys, &mut self.hashes, &mut self.groups);
        ids.extend(self.given.iter().map(|row| {
            let hash = hash::of_bytes(row.data());
            let is_same = |group: &u32| {
                hashes[*group as usize] == hash && keys.row(*group as usize).data() == row.data()
            };
            if let Some(group) = groups.find(hash, is_same) {
                return *group;
            }
            let group = hashes.len() as u32;
            keys.push(row);
            hashes.push(hash);
            groups.insert_unique(hash, group, |group| hashes[*group as usize]);
            group
        }));
        Ok(())
    }
}
