//! The measured window of the base group, in columns, ready to be copied with shifted ids.

use std::ops::Range;

use crate::event::{BalanceQuery, Event, ExpenditureQuery};
use crate::intake::Reports;

/// The events of a window, by second.
#[derive(Debug, Default)]
pub struct Window {
    first_second: u16,
    /// One past the last event of each second.
    ends: Vec<u32>,
    /// Reports; their positions count the window's events.
    pub(crate) reports: Reports,
    /// Queries with their positions in the window.
    pub(crate) balances: Vec<(u32, BalanceQuery)>,
    pub(crate) expenditures: Vec<(u32, ExpenditureQuery)>,
}

impl Window {
    /// An empty window that begins with this second.
    pub fn new(first_second: u16) -> Self {
        Window { first_second, ..Window::default() }
    }

    /// Appends the events of the next second.
    pub fn push_second(&mut self, events: &[Event]) {
        let mut position = self.event_count();
        for event in events {
            match event {
                Event::Report(report) => self.reports.push(position, report),
                Event::Balance(query) => self.balances.push((position, *query)),
                Event::Expenditure(query) => self.expenditures.push((position, *query)),
                Event::TravelTime(_) => {}
            }
            position += 1;
        }
        self.ends.push(position);
    }

    /// The number of events.
    pub fn event_count(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The number of seconds.
    pub fn seconds(&self) -> usize {
        self.ends.len()
    }

    /// The second of the run with which the window begins.
    pub fn first_second(&self) -> u16 {
        self.first_second
    }

    /// Part `part` of `parts` of a second of the window, as a range of events.
    pub fn events_of(&self, second: usize, part: usize, parts: usize) -> Range<u32> {
        let start = if second == 0 { 0 } else { self.ends[second - 1] };
        let count = (self.ends[second] - start) as usize;
        start + (count * part / parts) as u32..start + (count * (part + 1) / parts) as u32
    }

    pub(crate) fn reports_in(&self, events: &Range<u32>) -> Range<usize> {
        range_of(&self.reports.positions, events, |position| *position)
    }

    pub(crate) fn balances_in(&self, events: &Range<u32>) -> Range<usize> {
        range_of(&self.balances, events, |query| query.0)
    }

    pub(crate) fn expenditures_in(&self, events: &Range<u32>) -> Range<usize> {
        range_of(&self.expenditures, events, |query| query.0)
    }
}

fn range_of<T>(items: &[T], events: &Range<u32>, position: impl Fn(&T) -> u32) -> Range<usize> {
    let before = |end: u32| items.partition_point(|item| position(item) < end);
    before(events.start)..before(events.end)
}
