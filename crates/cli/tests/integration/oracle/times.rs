//! `AS OF TIMESTAMP`: the newest version that has only rows up to a time.

use super::run::{Run, cell, int};
use super::view::View;
use tidemill_testing::duckdb::{Row, Value};

/// No more earlier versions than these are asked one by one.
const VERSIONS_MAX: i64 = 60;

impl Run {
    /// Asks a store as of an event time, and looks for the version that this must be among all that can be read.
    pub fn check_time(&mut self) {
        let is_asked = |view: &&View| view.is_store && view.recent_seconds.is_none();
        let views: Vec<View> = self.views.iter().filter(is_asked).cloned().collect();
        if views.is_empty() {
            return;
        }
        let view = &views[self.random.index(views.len())];
        let (name, names) = (&view.name, view.names());
        // Later versions have later rows, so they are not asked for.
        let newest = self.rows_of(&format!("SELECT max(ts) AS ts FROM {name}"));
        let Some(newest_ms) = newest.and_then(|rows| milliseconds(&rows[0][0])) else { return };
        let time_ms = newest_ms - 100 * (1 + self.random.index(40) as i64);
        let statement = format!("SELECT {names} FROM {name} AS OF TIMESTAMP '{}'", time(time_ms));
        let Some(rows) = self.rows_of(&statement) else { return };
        let cut = self.cut_now();
        let last = rows.iter().map(|row| int(&row[0])).max().unwrap_or(-1);
        let theirs = self.opinion.answer(cut, &format!("SELECT {names} FROM {name} WHERE n <= {last}"));
        let difference = tidemill_testing::duckdb::difference(&rows, &theirs, false);
        assert_eq!(difference, None, "seed {}: {statement}\n{}", self.seed, view.create());
        let Some(expected) = self.version_at(name, time_ms) else { return };
        assert_eq!(rows.len() as i64, expected, "seed {}: {statement}\n{}", self.seed, view.create());
        self.counts.as_of_times += 1;
    }

    /// How many rows the newest version has whose rows are all up to this time; `None` if it is not among those that are asked.
    fn version_at(&mut self, name: &str, time_ms: i64) -> Option<i64> {
        let fragments = self.client.query("SHOW FRAGMENTS").expect("it answers").expect("SHOW FRAGMENTS");
        let of_view = fragments.iter().find(|row| cell(row, 0) == name)?;
        let [oldest, newest] = [6, 7].map(|at| cell(of_view, at).parse::<i64>().ok());
        for cycle in (oldest?.max(newest? - VERSIONS_MAX)..=newest?).rev() {
            let asked = format!("SELECT count(*) AS rows, max(ts) AS ts FROM {name} AS OF CYCLE {cycle}");
            let rows = self.rows_of(&asked)?;
            if milliseconds(&rows[0][1]).is_none_or(|latest_ms| latest_ms <= time_ms) {
                return Some(int(&rows[0][0]));
            }
        }
        None
    }

    /// An answer; `None` if the version is gone.
    fn rows_of(&mut self, statement: &str) -> Option<Vec<Row>> {
        let answer = self.client.query(statement).expect("the server answers");
        answer.values().map_err(|error| self.refused(statement, &error)).ok()
    }
}

fn milliseconds(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(ns) => Some((ns / 1_000_000) as i64),
        _ => None,
    }
}

/// A time of the first day of 2026, as which all rows come.
fn time(time_ms: i64) -> String {
    let of_day = time_ms.rem_euclid(86_400_000);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    format!("2026-01-01 {:02}:{:02}:{:02}.{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
