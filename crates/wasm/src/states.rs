//! The states of groups, kept outside of the module.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;

use crate::Failure;
use crate::state_column::StateColumn;

/// No group of a batch.
const UNMARKED: u32 = u32::MAX;
/// The most bytes of the reason of a failed group.
const REASON_BYTES_MAX: usize = 200;

/// The states of groups `0..n`: columns with a row for each group, and the groups for which the code has failed.
///
/// A new group has NULL in all columns. A state of NULLs and a group without rows are the same.
///
/// ```
/// use arrow_array::{Array, cast::AsArray, types::Int64Type};
/// use arrow_schema::DataType::Int64;
/// use tidemill_wasm::States;
///
/// let mut states = States::new(&[Int64]);
/// states.resize(2);
/// assert_eq!(states.len(), 2);
/// assert!(states.is_new(1));
/// let partial = states.partial(&[1]).unwrap();
/// assert!(partial[0].as_primitive::<Int64Type>().is_null(0));
/// ```
pub struct States {
    types: Vec<DataType>,
    columns: Vec<StateColumn>,
    groups: usize,
    /// How many groups are not as if they had no row.
    used: usize,
    failed: BTreeMap<u32, String>,
    /// For each group, its number among the groups of a batch, while that is looked for.
    marks: Vec<u32>,
}

/// Rows, each with the number of its group among those of the rows.
pub(crate) struct Touched {
    /// The groups in the order of their first rows.
    pub groups: Vec<u32>,
    /// For each row, which of these is its group.
    pub of_rows: Vec<u32>,
}

impl States {
    /// No groups, whose states have columns of these types.
    pub fn new(types: &[DataType]) -> States {
        let columns = types.iter().map(StateColumn::new).collect();
        States {
            types: types.to_vec(),
            columns,
            groups: 0,
            used: 0,
            failed: BTreeMap::new(),
            marks: Vec::new(),
        }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.groups
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.groups == 0
    }

    /// Makes room for groups `0..groups`.
    pub fn resize(&mut self, groups: usize) {
        self.groups = groups;
        self.columns.iter_mut().for_each(|column| column.resize(groups));
        self.marks.resize(groups, UNMARKED);
    }

    /// How many groups have rows, as far as their states say.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Keeps only some groups, whose numbers ascend. The first of them becomes group 0.
    pub fn keep(&mut self, groups: &[u32]) {
        self.columns.iter_mut().for_each(|column| column.keep(groups));
        let failed = std::mem::take(&mut self.failed);
        let kept = |group: u32| groups.binary_search(&group).ok();
        self.failed =
            failed.into_iter().filter_map(|(group, reason)| Some((kept(group)? as u32, reason))).collect();
        self.resize(groups.len());
        self.used = (0..groups.len() as u32).filter(|group| !self.is_new(*group)).count();
    }

    /// Whether a group is as if it had no row.
    pub fn is_new(&self, group: u32) -> bool {
        !self.failed.contains_key(&group) && self.columns.iter().all(|column| column.is_null(group))
    }

    /// Why the code has failed for a group, if it has.
    pub fn failure(&self, group: u32) -> Option<&str> {
        self.failed.get(&group).map(String::as_str)
    }

    /// The states of groups as columns, and then the reasons of those that have failed.
    ///
    /// # Errors
    /// If they are too large for one array.
    pub fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Failure> {
        let mut columns = self.get(groups)?;
        let reasons: StringArray = groups.iter().map(|group| self.failure(*group)).collect();
        columns.push(Arc::new(reasons));
        Ok(columns)
    }

    /// Sets the states of groups to what [`partial`](States::partial) gave: row `i` is that of `groups[i]`.
    ///
    /// # Errors
    /// If the columns have other types.
    ///
    /// ```
    /// use arrow_schema::DataType::Utf8;
    /// use tidemill_wasm::States;
    ///
    /// let (mut old, mut new) = (States::new(&[Utf8]), States::new(&[Utf8]));
    /// old.resize(3);
    /// new.resize(3);
    /// new.restore(&[0, 1, 2], &old.partial(&[0, 1, 2])?)?;
    /// assert!(new.is_new(2));
    /// # Ok::<(), tidemill_wasm::Failure>(())
    /// ```
    pub fn restore(&mut self, groups: &[u32], partial: &[ArrayRef]) -> Result<(), Failure> {
        let (columns, reasons) = self.split(partial)?;
        self.set(groups, columns)?;
        let failed = groups.iter().enumerate().filter(|(row, _)| reasons.is_valid(*row));
        failed.for_each(|(row, group)| self.fail(*group, reasons.value(row)));
        Ok(())
    }

    /// The columns of a partial result, and the reasons of groups that have failed.
    pub(crate) fn split<'a>(
        &self,
        partial: &'a [ArrayRef],
    ) -> Result<(&'a [ArrayRef], &'a StringArray), Failure> {
        let reasons = |column: &'a ArrayRef| column.as_any().downcast_ref::<StringArray>();
        let split = partial.split_last().and_then(|(last, columns)| Some((columns, reasons(last)?)));
        let types = |(columns, _): &(&[ArrayRef], _)| {
            columns.iter().map(|column| column.data_type()).eq(self.types.iter())
        };
        split.filter(types).ok_or_else(|| Failure::Stop("a partial result has other columns".to_owned()))
    }

    /// Makes a group fail: its state is gone, and it takes no more rows.
    pub(crate) fn fail(&mut self, group: u32, reason: &str) {
        self.used += usize::from(self.is_new(group));
        let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
        self.failed.insert(group, reason[..end.unwrap_or(0)].to_owned());
        for (column, data_type) in self.columns.iter_mut().zip(&self.types) {
            // An array of NULL fits the column.
            let _ = column.scatter(&[group], &arrow_array::new_null_array(data_type, 1));
        }
    }

    /// The rows whose groups have not failed; `None`: all.
    pub(crate) fn without_failed(&self, groups: &[u32]) -> Option<Vec<u32>> {
        let has_failed = |group: &u32| self.failed.contains_key(group);
        if self.failed.is_empty() || !groups.iter().any(has_failed) {
            return None;
        }
        let rows = groups.iter().enumerate().filter(|(_, group)| !has_failed(group));
        Some(rows.map(|(row, _)| row as u32).collect())
    }

    /// The states of groups as columns.
    ///
    /// # Errors
    /// If they are too large for one array.
    pub fn get(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Failure> {
        self.columns.iter().map(|column| column.gather(groups)).collect()
    }

    /// Sets the states of groups: row `i` is that of `groups[i]`.
    ///
    /// # Errors
    /// If the columns have other types.
    pub fn set(&mut self, groups: &[u32], columns: &[ArrayRef]) -> Result<(), Failure> {
        if columns.len() != self.columns.len() {
            return Err(Failure::Stop(format!("it was given {} columns of states", columns.len())));
        }
        let used = |states: &States| groups.iter().filter(|group| !states.is_new(**group)).count();
        let before = used(self);
        let mut columns = self.columns.iter_mut().zip(columns);
        let done = columns.try_for_each(|(column, given)| column.scatter(groups, given));
        self.used = self.used - before + used(self);
        done
    }

    /// Numbers the groups of rows from 0 on.
    pub(crate) fn touched(&mut self, groups: &[u32]) -> Touched {
        let mut touched = Touched { groups: Vec::new(), of_rows: Vec::with_capacity(groups.len()) };
        for group in groups {
            let mark = &mut self.marks[*group as usize];
            if *mark == UNMARKED {
                *mark = touched.groups.len() as u32;
                touched.groups.push(*group);
            }
            touched.of_rows.push(*mark);
        }
        touched.groups.iter().for_each(|group| self.marks[*group as usize] = UNMARKED);
        touched
    }

    /// Removes all groups and keeps the memory.
    pub fn clear(&mut self) {
        (self.groups, self.used) = (0, 0);
        self.columns.iter_mut().for_each(StateColumn::clear);
        self.failed.clear();
        self.marks.clear();
    }

    /// The memory that is held.
    pub fn bytes(&self) -> usize {
        let failed = self.failed.values().map(|reason| reason.len() + 64).sum::<usize>();
        self.columns.iter().map(StateColumn::bytes).sum::<usize>() + failed + self.marks.capacity() * 4
    }
}

impl std::fmt::Debug for States {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("States").field("groups", &self.groups).finish_non_exhaustive()
    }
}
