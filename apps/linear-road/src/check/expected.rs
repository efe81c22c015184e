//! The expected answers, in memory and sorted by key: about 25 bytes per answer.

use std::path::Path;

use tidemill_connect::LineFile;

use super::CheckError;
use super::answer::{Answer, AnswerKind, Content, Key, any, any_small};
use crate::bad_lines::BadLine;
use crate::fields::{Field, split};
use crate::line_error::{LineError, LineReason};
use crate::text_read::{QID_MAX, parse_file_line};

/// How old a balance may be, in seconds (specification, section 8).
const BALANCE_AGE_MAX_S: i32 = 60;

/// The permitted answers to one input line.
pub(super) trait Expectation {
    /// Second of the input line.
    fn time(&self) -> u16;
    /// What the answer should be.
    fn describe(&self, kind: AnswerKind, steps: &[BalanceStep]) -> String;
    /// How the answer differs; `None` if it is right.
    fn difference(&self, kind: AnswerKind, steps: &[BalanceStep], answer: &Content) -> Option<String>;
}

/// Expected answers by key, each found at most once.
pub(super) struct Expected<E> {
    entries: Vec<(Key, E)>,
    answered: Vec<bool>,
    /// The steps of all balances, one after the other; empty for the kinds without.
    pub(super) steps: Vec<BalanceStep>,
}

impl<E: Expectation> Expected<E> {
    fn new(
        path: &Path,
        kind: AnswerKind,
        mut entries: Vec<(Key, E)>,
        steps: Vec<BalanceStep>,
    ) -> Result<Expected<E>, CheckError> {
        if !entries.is_sorted_by_key(|entry| entry.0) {
            entries.sort_unstable_by_key(|entry| entry.0);
        }
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let key = pair[0].0.describe(kind, pair[0].1.time());
            return Err(CheckError::ExpectedTwice { path: path.to_owned(), key });
        }
        let answered = vec![false; entries.len()];
        Ok(Expected { entries, answered, steps })
    }

    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The index of the key, if an answer with it is expected.
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        self.entries.binary_search_by_key(&key, |entry| entry.0).ok()
    }

    pub(super) fn expectation(&self, index: usize) -> &E {
        &self.entries[index].1
    }

    /// Marks as answered; true if it was marked before.
    pub(super) fn answer(&mut self, index: usize) -> bool {
        std::mem::replace(&mut self.answered[index], true)
    }

    /// The expected answers that did not come, in the order of the keys.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (Key, &E)> {
        let unanswered = self.entries.iter().zip(&self.answered).filter(|(_, answered)| !**answered);
        unanswered.map(|(entry, _)| (entry.0, &entry.1))
    }
}

/// Exactly one right answer.
impl Expectation for Content {
    fn time(&self) -> u16 {
        self.time
    }

    fn describe(&self, kind: AnswerKind, _: &[BalanceStep]) -> String {
        match kind {
            AnswerKind::Toll => format!("Lav {}, Toll {}", self.detail, self.value),
            AnswerKind::Accident => format!("Seg {}", self.value),
            AnswerKind::Balance => format!("ResultTime {}, Bal {}", self.detail, self.value),
            AnswerKind::Expenditure => format!("Bal {}", self.value),
        }
    }

    fn difference(&self, kind: AnswerKind, steps: &[BalanceStep], answer: &Content) -> Option<String> {
        if self == answer {
            return None;
        }
        let time = if self.time == answer.time { String::new() } else { format!("Time {}, ", answer.time) };
        Some(format!("{time}{} instead of {}", answer.describe(kind, steps), self.describe(kind, steps)))
    }
}

/// From the second `from` on the balance is `balance`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BalanceStep {
    from: i32,
    balance: i64,
}

/// The balance as of any second of the last minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllowedBalances {
    time: u16,
    /// Where its steps lie among those of all queries.
    first_step: u32,
    steps: u32,
}

impl AllowedBalances {
    fn steps<'a>(&self, all: &'a [BalanceStep]) -> &'a [BalanceStep] {
        &all[self.first_step as usize..][..self.steps as usize]
    }
}

impl Expectation for AllowedBalances {
    fn time(&self) -> u16 {
        self.time
    }

    fn describe(&self, _: AnswerKind, steps: &[BalanceStep]) -> String {
        let steps = self.steps(steps).iter();
        let steps: Vec<_> = steps.map(|step| format!("Bal {} from {} on", step.balance, step.from)).collect();
        steps.join(", ")
    }

    fn difference(&self, _: AnswerKind, steps: &[BalanceStep], answer: &Content) -> Option<String> {
        let (time, result_time) = (i32::from(self.time), answer.detail);
        if answer.time != self.time {
            return Some(format!("Time {} instead of {time}", answer.time));
        }
        if !(time - BALANCE_AGE_MAX_S..=time).contains(&result_time) {
            return Some(format!(
                "ResultTime {result_time} is not in {} to {time}",
                time - BALANCE_AGE_MAX_S
            ));
        }
        let Some(step) = self.steps(steps).iter().rev().find(|step| step.from <= result_time) else {
            return Some(format!("no balance is known as of ResultTime {result_time}"));
        };
        (step.balance != answer.value)
            .then(|| format!("Bal {} instead of {} as of {result_time}", answer.value, step.balance))
    }
}

/// Reads a file of expected answers.
pub(super) fn read_exact(path: &Path, kind: AnswerKind) -> Result<Expected<Content>, CheckError> {
    let mut entries = Vec::new();
    for_each_line(path, |line| {
        let answer = Answer::parse(kind, line)?;
        entries.push((answer.key, answer.content));
        Ok(())
    })?;
    Expected::new(path, kind, entries, Vec::new())
}

/// Reads a file of `QID,Time,VID,steps` with steps of `from:balance|from:balance`.
pub(super) fn read_allowed_balances(path: &Path) -> Result<Expected<AllowedBalances>, CheckError> {
    let mut entries = Vec::new();
    let mut all_steps: Vec<BalanceStep> = Vec::new();
    for_each_line(path, |line| {
        let [qid, time, vid, steps] = split(line, &["QID", "Time", "VID", "Steps"])?;
        let key = Key::query(qid.within(0, QID_MAX)?);
        let time = time.within(0, u16::MAX)?;
        vid.within::<u32>(0, u32::MAX)?;
        let first_step = all_steps.len();
        parse_steps(steps, &mut all_steps)?;
        let count = all_steps.len() - first_step;
        entries.push((key, AllowedBalances { time, first_step: first_step as u32, steps: count as u32 }));
        Ok(())
    })?;
    Expected::new(path, AnswerKind::Balance, entries, all_steps)
}

fn parse_steps(field: Field<'_>, all_steps: &mut Vec<BalanceStep>) -> Result<(), LineError> {
    let mut column = field.column;
    let mut earliest = i64::from(i32::MIN);
    for bytes in field.bytes.split(|byte| *byte == b'|') {
        let step = Field { bytes, column, ..field };
        column += bytes.len() + 1;
        let colon = bytes.iter().position(|byte| *byte == b':');
        let colon = colon.ok_or_else(|| step.error(LineReason::NotAnInteger))?;
        let from_field = Field { bytes: &bytes[..colon], ..step };
        let from = any_small(from_field)?;
        from_field.within::<i64>(earliest, i32::MAX)?;
        earliest = i64::from(from) + 1;
        let balance_column = step.column + colon + 1;
        let balance = any(Field { bytes: &bytes[colon + 1..], column: balance_column, ..field })?;
        all_steps.push(BalanceStep { from, balance });
    }
    Ok(())
}

/// Expected answers must be right in every line.
fn for_each_line(
    path: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), LineError>,
) -> Result<(), CheckError> {
    let mut file = LineFile::open(path)?;
    while let Some(chunk) = file.next_chunk()? {
        for line in chunk.lines() {
            if let Err(error) = parse_file_line(&line, &mut take) {
                let name = path.display().to_string();
                return Err(CheckError::BadExpected(BadLine::new(&name, &line, error)));
            }
        }
    }
    Ok(())
}
