//! An aggregate: the geometric mean, whose state is a number of values and the sum of their logarithms.
//!
//! `rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -O -C strip=symbols geometric_mean.rs`

use std::slice::{from_raw_parts, from_raw_parts_mut};

/// A column in the memory of this module, whose values have a fixed width.
#[repr(C)]
pub struct Column<T> {
    /// A byte for each row, 0: NULL; a null pointer: no row is NULL. States always have one.
    validity: *mut u8,
    values: *mut T,
    offsets: *const u32,
}

/// The columns of a state: a row for each group.
#[repr(C)]
pub struct State {
    counts: Column<i64>,
    logarithms: Column<f64>,
}

impl State {
    /// Adds to the state of a group. Below NULL, the state of a new group, stands 0.
    unsafe fn add(&mut self, group: usize, count: i64, logarithm: f64) {
        unsafe {
            *self.counts.values.add(group) += count;
            *self.logarithms.values.add(group) += logarithm;
            *self.counts.validity.add(group) = 1;
            *self.logarithms.validity.add(group) = 1;
        }
    }
}

/// Memory for the arguments. It is never freed: each batch has a memory of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tidemill_allocate(bytes: usize) -> *mut u8 {
    Vec::leak(vec![0_u8; bytes]).as_mut_ptr()
}

/// # Safety
/// The caller passes a column of numbers, the group of each row, and the states of the groups.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn geometric_mean_update(
    rows: usize,
    arguments: *const Column<f64>,
    group_of_row: *const u32,
    _groups: usize,
    state: *mut State,
) {
    let (column, state) = unsafe { (&*arguments, &mut *state) };
    let (values, groups) =
        unsafe { (from_raw_parts(column.values, rows), from_raw_parts(group_of_row, rows)) };
    for (row, (value, group)) in values.iter().zip(groups).enumerate() {
        let is_valid = column.validity.is_null() || unsafe { *column.validity.add(row) } != 0;
        if is_valid {
            // A panic is a trap: the group has no result.
            assert!(*value > 0.0, "a geometric mean is one of positive numbers");
            unsafe { state.add(*group as usize, 1, value.ln()) };
        }
    }
}

/// # Safety
/// The caller passes states, the group of each of them, and the states that they are added to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn geometric_mean_merge(
    rows: usize,
    others: *const State,
    group_of_row: *const u32,
    _groups: usize,
    state: *mut State,
) {
    let (others, state) = unsafe { (&*others, &mut *state) };
    for (row, group) in unsafe { from_raw_parts(group_of_row, rows) }.iter().enumerate() {
        let (count, logarithm) =
            unsafe { (*others.counts.values.add(row), *others.logarithms.values.add(row)) };
        unsafe { state.add(*group as usize, count, logarithm) };
    }
}

/// # Safety
/// The caller passes the states of groups.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn geometric_mean_result(groups: usize, state: *const State, result: *mut Column<f64>) {
    let state = unsafe { &*state };
    let means = Vec::leak(vec![0.0; groups]);
    let counts = unsafe { from_raw_parts_mut(state.counts.values, groups) };
    let logarithms = unsafe { from_raw_parts_mut(state.logarithms.values, groups) };
    for ((mean, count), logarithm) in means.iter_mut().zip(counts).zip(logarithms) {
        *mean = (*logarithm / *count as f64).exp();
    }
    // A group without values has no mean: its count is NULL, and so is the result.
    let result_column =
        Column { validity: state.counts.validity, values: means.as_mut_ptr(), offsets: std::ptr::null() };
    unsafe { result.write(result_column) };
}
