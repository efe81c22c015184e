//! The history of tolls paid, in memory: sorted keys of 8 bytes, and tolls of 4.

use crate::event::HistoryRow;

/// What each car paid on each expressway on each of the last 69 days.
#[derive(Clone, Debug, Default)]
pub struct History {
    keys: Vec<u64>,
    tolls: Vec<u32>,
}

fn key(vid: u32, day: u8, xway: u16) -> u64 {
    u64::from(vid) << 32 | u64::from(day) << 16 | u64::from(xway)
}

impl History {
    /// Builds the history; of several rows with the same (vehicle, day, expressway) the last counts.
    ///
    /// ```
    /// use tidemill_linear_road::event::HistoryRow;
    /// use tidemill_linear_road::expenditures::history::History;
    /// let history = History::new([HistoryRow { vid: 7, day: 1, xway: 0, toll: 42 }].into_iter());
    /// assert_eq!(history.toll(7, 1, 0), Some(42));
    /// assert_eq!(history.toll(7, 2, 0), None);
    /// ```
    pub fn new(rows: impl Iterator<Item = HistoryRow>) -> Self {
        let mut entries: Vec<(u64, u32)> =
            rows.map(|row| (key(row.vid, row.day, row.xway), row.toll)).collect();
        entries.sort_by_key(|entry| entry.0);
        entries.reverse();
        entries.dedup_by_key(|entry| entry.0);
        entries.reverse();
        let (keys, tolls) = entries.into_iter().unzip();
        History { keys, tolls }
    }

    /// The amount paid, if it is known.
    pub fn toll(&self, vid: u32, day: u8, xway: u16) -> Option<u32> {
        self.keys.binary_search(&key(vid, day, xway)).ok().map(|found| self.tolls[found])
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
