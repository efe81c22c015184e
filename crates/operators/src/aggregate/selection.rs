//! Which rows of a batch count: those that are not NULL and pass the filter.

use arrow_array::{Array, BooleanArray};
use arrow_buffer::NullBuffer;

/// The rows for which all of these columns have a value and the filter is true; `None`: all rows.
pub(super) fn selected(columns: &[&dyn Array], filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let mut selected = filter.and_then(filter_mask);
    for column in columns {
        let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        selected = NullBuffer::union(selected.as_ref(), nulls.as_ref());
    }
    selected
}

fn filter_mask(filter: &BooleanArray) -> Option<NullBuffer> {
    let mask = match filter.nulls() {
        Some(nulls) if nulls.null_count() > 0 => filter.values() & nulls.inner(),
        _ => filter.values().clone(),
    };
    Some(NullBuffer::new(mask)).filter(|mask| mask.null_count() > 0)
}

/// Calls `add` with the group and the index of each selected row, in order.
#[inline(always)]
pub(super) fn for_each_row(groups: &[u32], selected: Option<&NullBuffer>, mut add: impl FnMut(usize, usize)) {
    match selected {
        None => groups.iter().enumerate().for_each(|(row, group)| add(*group as usize, row)),
        Some(selected) => selected.valid_indices().for_each(|row| add(groups[row] as usize, row)),
    }
}

/// Calls `add` with the group and the value of each selected row, in order.
#[inline(always)]
pub(super) fn for_each_value<T: Copy>(
    groups: &[u32],
    values: &[T],
    selected: Option<&NullBuffer>,
    mut add: impl FnMut(usize, T),
) {
    match selected {
        None => groups.iter().zip(values).for_each(|(group, value)| add(*group as usize, *value)),
        Some(selected) => {
            selected.valid_indices().for_each(|row| add(groups[row] as usize, values[row]));
        }
    }
}
