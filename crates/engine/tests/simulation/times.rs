//! Which rows of a source are late, as the plain oracle of connections says, over all runs.

use std::time::{Duration, Instant};

use tidemill_core::Heard;

use super::oracle::DELAY_NS;
use super::world::{LastPoll, Row};
use crate::connection_tests::oracle::Oracle;

/// The connection of rows that have none.
const PLAIN: u64 = u64::MAX;

/// The times of one source.
pub struct Times {
    oracle: Oracle,
    /// Of each row in the journal, whether it is late, and how far the source is behind it.
    rows: Vec<(bool, i64)>,
    last_rows: Option<Instant>,
    /// Whether the source has rows of no connection.
    is_plain: bool,
}

impl Default for Times {
    fn default() -> Times {
        Times { oracle: Oracle::new(DELAY_NS, i64::MIN), rows: Vec::new(), last_rows: None, is_plain: false }
    }
}

impl Times {
    /// A run begins, with this many rows in the journal, and its last cut says how far the source is at least.
    pub fn started(&mut self, rows: usize, cut_ns: i64, now: Instant) {
        self.rows.truncate(rows);
        let row_ns = self.rows.last().map_or(i64::MIN, |(_, time_ns)| *time_ns);
        self.oracle = Oracle::new(DELAY_NS, row_ns.max(cut_ns));
        self.last_rows = Some(now);
        self.is_plain = false;
    }

    /// What a poll has brought; of its rows, those that are new in the journal.
    pub fn polled(&mut self, polled: &LastPoll, new: &[Row], now: Instant, idle_after: Option<Duration>) {
        let mut rows = new.iter();
        for heard in &polled.heard {
            match *heard {
                Heard::Opened(connection) => self.oracle.opens(connection),
                Heard::Silent(connection) => self.oracle.falls_silent(connection),
                Heard::Closed(connection) => self.oracle.closes(connection),
                Heard::Rows { connection, .. } => {
                    rows.next().into_iter().for_each(|row| self.row(connection, row))
                }
            }
        }
        let rest: Vec<&Row> = rows.collect();
        if !rest.is_empty() && !std::mem::replace(&mut self.is_plain, true) {
            self.oracle.opens(PLAIN);
        }
        rest.into_iter().for_each(|row| self.row(PLAIN, row));
        if polled.gave_rows {
            self.last_rows = Some(now);
        } else if idle_after.is_some_and(|limit| self.last_rows.is_some_and(|last| now - last >= limit)) {
            self.oracle.rests();
        }
    }

    fn row(&mut self, connection: u64, row: &Row) {
        let is_late = self.oracle.row(connection, row.time_ns);
        self.rows.push((is_late, self.oracle.time_ns));
    }

    pub fn late(&self) -> Vec<bool> {
        self.rows.iter().map(|(is_late, _)| *is_late).collect()
    }
}
