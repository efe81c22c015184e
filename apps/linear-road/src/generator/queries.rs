//! The drivers' queries, and the history that answers those about earlier days.

use std::collections::HashSet;

use super::random::Random;
use crate::event::{BalanceQuery, Event, ExpenditureQuery, HistoryRow, SEGMENTS, TravelTimeQuery};

/// Share of type 2 among the queries, percent.
const BALANCE_PERCENT: u32 = 50;
/// Share of type 3; the rest is type 4.
const EXPENDITURE_PERCENT: u32 = 10;
/// The oldest day of the history.
const DAY_MAX: u32 = 69;
/// The tolls of the history.
const HISTORY_TOLLS: (u32, u32) = (10, 99);

/// Makes queries, numbered from 0, and keeps the history that they need.
#[derive(Clone, Debug)]
pub(super) struct Queries {
    random: Random,
    expressways: u16,
    next_qid: u64,
    history: Vec<HistoryRow>,
    /// The contents of the history; only tested for membership, so its order does not matter.
    known: HashSet<(u32, u8, u16)>,
}

impl Queries {
    pub(super) fn new(expressways: u16, random: Random) -> Self {
        Queries { random, expressways, next_qid: 0, history: Vec::new(), known: HashSet::new() }
    }

    /// The query that the driver of `vid` sends along with the report of `time_s`.
    pub(super) fn ask(&mut self, time_s: u32, vid: u32) -> Event {
        let (time, qid) = (time_s as u16, self.next_qid);
        self.next_qid += 1;
        let kind = self.random.below(100);
        if kind < BALANCE_PERCENT {
            return Event::Balance(BalanceQuery { time, vid, qid });
        }
        let xway = self.random.below(u32::from(self.expressways)) as u16;
        if kind < BALANCE_PERCENT + EXPENDITURE_PERCENT {
            let day = self.random.between(1, DAY_MAX) as u8;
            self.remember(vid, day, xway);
            return Event::Expenditure(ExpenditureQuery { time, vid, xway, qid, day });
        }
        Event::TravelTime(TravelTimeQuery {
            time,
            vid,
            xway,
            qid,
            seg_from: self.random.below(SEGMENTS as u32) as u8,
            seg_to: self.random.below(SEGMENTS as u32) as u8,
            day_of_week: self.random.between(1, 7) as u8,
            minute_of_day: self.random.between(1, 1440) as u16,
        })
    }

    /// The number of queries so far: their ids are below it.
    pub(super) fn count(&self) -> u64 {
        self.next_qid
    }

    /// The rows asked for so far.
    pub(super) fn history(&self) -> &[HistoryRow] {
        &self.history
    }

    fn remember(&mut self, vid: u32, day: u8, xway: u16) {
        if self.known.insert((vid, day, xway)) {
            let toll = self.random.between(HISTORY_TOLLS.0, HISTORY_TOLLS.1);
            self.history.push(HistoryRow { vid, day, xway, toll });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_again_adds_no_second_row() {
        let mut queries = Queries::new(2, Random::new(1, 1));
        for _ in 0..20_000 {
            queries.ask(0, 7);
        }
        let rows: HashSet<_> = queries.history().iter().map(|row| (row.day, row.xway)).collect();
        assert_eq!(rows.len(), 2 * DAY_MAX as usize, "20,000 queries ask for every day");
        assert_eq!(queries.history().len(), rows.len());
    }
}
