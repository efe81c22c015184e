//! Which rows of a source were in at a cycle, learnt from a view of all its rows and one of its late rows, and checked against what
//! was sent.

use super::feeding::Log;
use super::rows::Lateness;

/// The rows that were accepted so far, by their numbers.
#[derive(Default)]
pub struct History {
    accepted: Vec<Accepted>,
    lateness: Lateness,
}

struct Accepted {
    n: i64,
    is_late: bool,
}

/// What may be missing among the rows of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// Nothing: what is not acknowledged is sent again.
    None,
    /// Rows that nobody acknowledged.
    Unacknowledged,
}

impl History {
    /// Takes in what was read at one cycle: the numbers of rows in time and of late rows, each ascending. Returns the
    /// number of rows that were in, and those that are new, as they go into a table of all rows.
    ///
    /// # Errors
    /// What is wrong: a row that occurs twice, lost, out of order, or wrongly late.
    pub fn read(
        &mut self,
        in_time: &[i64],
        late: &[i64],
        has_watermark: bool,
        gaps: Gaps,
        log: &Log,
    ) -> Result<(usize, Vec<String>), String> {
        let mut seen: Vec<(i64, bool)> = in_time.iter().map(|n| (*n, false)).collect();
        seen.extend(late.iter().map(|n| (*n, true)));
        seen.sort_unstable();
        if let Some(pair) = seen.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("row {} is there twice", pair[0].0));
        }
        for (at, known) in self.accepted.iter().enumerate().take(seen.len()) {
            if seen[at] != (known.n, known.is_late) {
                return Err(format!(
                    "row number {at} was row {} (late: {}), and is {:?}",
                    known.n, known.is_late, seen[at]
                ));
            }
        }
        let mut new = Vec::new();
        for (n, is_late) in seen.iter().skip(self.accepted.len()) {
            let row = log.rows.get(*n as usize).ok_or_else(|| format!("row {n} was never sent"))?;
            let expected = self.accepted.last().map_or(0, |last| last.n + 1);
            let missing = (expected..*n).find(|n| gaps == Gaps::None || log.is_certain[*n as usize]);
            if let Some(missing) = missing {
                return Err(format!("row {missing} is missing, and row {n} is there"));
            }
            let must_be_late = has_watermark && self.lateness.is_late(row.at_ms);
            if must_be_late != *is_late {
                return Err(format!("row {n} is late: {is_late}, and must be: {must_be_late}"));
            }
            self.accepted.push(Accepted { n: *n, is_late: *is_late });
            let values = row.sql();
            new.push(format!("{}, {is_late})", &values[..values.len() - 1]));
        }
        Ok((seen.len(), new))
    }

    /// The number of the last row, if there are this many; -1 if there are none.
    pub fn last(&self, count: usize) -> i64 {
        count.checked_sub(1).map_or(-1, |last| self.accepted[last].n)
    }

    /// A row that was acknowledged, and is not among those that were accepted.
    pub fn missing(&self, log: &Log) -> Option<i64> {
        let mut accepted = self.accepted.iter().map(|row| row.n).peekable();
        (0..log.rows.len() as i64).find(|n| {
            let is_there = accepted.next_if_eq(n).is_some();
            !is_there && log.is_certain[*n as usize]
        })
    }
}
