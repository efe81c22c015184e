//! Panes: the longest intervals of time that no window boundary cuts.
//!
//! All rows of a pane belong to the same windows, so their state is kept only once (Li et al., "No pane, no gain",
//! SIGMOD Record 34(1), 2005). A tumbling window is one pane.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, UInt32Array};

use crate::WindowSpec;

/// The panes of windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panes {
    /// The length of a pane.
    pub pane_ns: i64,
    size_ns: i64,
    slide_ns: i64,
    offset_ns: i64,
    /// Times further from 0 are in windows that cannot be represented.
    latest: i64,
}

/// Consecutive rows of one pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaneRun {
    /// The start of the pane; `None` for rows without a time, or with a time that is too far away.
    pub pane: Option<i64>,
    /// The first row.
    pub start: usize,
    /// One past the last row.
    pub end: usize,
}

impl Panes {
    /// The panes of these windows, whose specification has been checked.
    pub fn new(window: &WindowSpec) -> Panes {
        let (size_ns, slide_ns) = (window.size_ns, window.slide_ns);
        let offset_ns = window.offset_ns.rem_euclid(slide_ns);
        let pane_ns = greatest_common_divisor(size_ns, slide_ns);
        Panes { pane_ns, size_ns, slide_ns, offset_ns, latest: i64::MAX - size_ns - slide_ns }
    }

    /// The end of the window that starts here.
    pub fn window_end(&self, start: i64) -> i64 {
        start + self.size_ns
    }

    /// Whether each pane is a window of its own.
    pub fn are_windows(&self) -> bool {
        self.size_ns == self.slide_ns
    }

    /// The pane of a time; `None` if the time is too far away.
    #[inline]
    pub fn pane_of(&self, time: i64) -> Option<i64> {
        let is_near = |time: &i64| -self.latest <= *time && *time <= self.latest;
        let pane = |time: i64| time - (time - self.offset_ns).rem_euclid(self.pane_ns);
        Some(time).filter(is_near).map(pane).filter(is_near)
    }

    /// The first window that contains the pane and ends after `closed`; `None` if there is none.
    pub fn first_window(&self, pane: i64, closed: i64) -> Option<i64> {
        let (offset, slide) = (i128::from(self.offset_ns), i128::from(self.slide_ns));
        let before = i128::from(pane.max(closed)) - i128::from(self.size_ns);
        let start = (before - offset).div_euclid(slide) * slide + offset + slide;
        i64::try_from(start).ok().filter(|start| *start <= pane)
    }

    /// Whether all windows of the pane, of which there is at least one, end at `closed` or before.
    pub fn is_late(&self, pane: i64, closed: i64) -> bool {
        self.first_window(pane, closed).is_none() && self.first_window(pane, i64::MIN).is_some()
    }

    /// Divides rows by pane, with each pane's rows in their order. If runs are short, it returns an order in which to
    /// take the rows first, and the runs refer to that order.
    pub fn divide(&self, times: &ArrayRef, runs: &mut Vec<PaneRun>) -> Option<UInt32Array> {
        runs.clear();
        let times = times.as_primitive::<TimestampNanosecondType>();
        let values = times.values();
        if values.is_empty() {
            return None;
        }
        if times.null_count() == 0 {
            let least = values.iter().copied().fold(i64::MAX, i64::min);
            let most = values.iter().copied().fold(i64::MIN, i64::max);
            let (first, last) = (self.pane_of(least), self.pane_of(most));
            if first.is_some() && first == last {
                runs.push(PaneRun { pane: first, start: 0, end: values.len() });
                return None;
            }
        }
        let pane_of_row = |row: usize| if times.is_null(row) { None } else { self.pane_of(values[row]) };
        if self.find_runs(values.len(), &pane_of_row, runs) {
            return None;
        }
        let panes = (0..values.len()).map(pane_of_row).collect::<Vec<_>>();
        Some(self.order_by_pane(&panes, runs))
    }

    /// Finds the runs of rows in their current order; false if they are too short for that.
    fn find_runs(
        &self,
        rows: usize,
        pane_of_row: &impl Fn(usize) -> Option<i64>,
        runs: &mut Vec<PaneRun>,
    ) -> bool {
        let runs_max = 4 + rows / 64;
        for row in 0..rows {
            let pane = pane_of_row(row);
            match runs.last_mut() {
                Some(run) if run.pane == pane => run.end = row + 1,
                _ => runs.push(PaneRun { pane, start: row, end: row + 1 }),
            }
            if runs.len() > runs_max {
                return false;
            }
        }
        true
    }

    /// The rows ordered by pane, stably.
    fn order_by_pane(&self, panes: &[Option<i64>], runs: &mut Vec<PaneRun>) -> UInt32Array {
        runs.clear();
        let mut order = (0..panes.len() as u32).collect::<Vec<_>>();
        if self.counting_order(panes, &mut order) {
        } else {
            order.sort_by_key(|row| panes[*row as usize])
        }
        for (index, row) in order.iter().enumerate() {
            let pane = panes[*row as usize];
            match runs.last_mut() {
                Some(run) if run.pane == pane => run.end = index + 1,
                _ => runs.push(PaneRun { pane, start: index, end: index + 1 }),
            }
        }
        UInt32Array::from(order)
    }

    /// Orders by counting, if the panes lie close together.
    fn counting_order(&self, panes: &[Option<i64>], order: &mut [u32]) -> bool {
        let known = || panes.iter().flatten().copied();
        let (Some(least), Some(most)) = (known().min(), known().max()) else { return true };
        let length = (most.wrapping_sub(least) as u64 / self.pane_ns as u64).saturating_add(2);
        if length > 4 * panes.len() as u64 {
            return false;
        }
        // Rows without pane come first, at 0.
        let place = |pane: &Option<i64>| pane.map_or(0, |pane| 1 + ((pane - least) / self.pane_ns) as usize);
        let mut next = vec![0u32; length as usize + 1];
        panes.iter().for_each(|pane| next[place(pane) + 1] += 1);
        for index in 1..next.len() {
            next[index] += next[index - 1];
        }
        for (row, pane) in panes.iter().enumerate() {
            let next = &mut next[place(pane)];
            order[*next as usize] = row as u32;
            *next += 1;
        }
        true
    }
}

fn greatest_common_divisor(left: i64, right: i64) -> i64 {
    match right {
        0 => left,
        _ => greatest_common_divisor(right, left % right),
    }
}
