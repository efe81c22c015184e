//! Checks the answers of some copies in full, while they go out.
//!
//! Answers come in the order of the events that caused them, and a copy's events keep the base group's order. So the
//! answers of a copy are the base group's, one after the other, with shifted ids.

use std::sync::Arc;

use tidemill_engine::Batch;
use tidemill_engine::arrow::array::types::{Int8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use super::feeder::Spans;
use crate::answers::{ACCIDENTS, KINDS, TOLLS};

/// An answer with the base group's ids: (vehicle or query, second, first value, second value).
pub type Answer = (u64, u16, i64, u64);

/// The right answers of the base group in the window, by kind, in the order of their events.
#[derive(Clone, Debug, Default)]
pub struct RightAnswers {
    /// By kind.
    pub kinds: [Vec<Answer>; KINDS],
}

/// The answers of a batch, whose ids are the vehicle's for kinds 0 and 1 and the query's for 2 and 3.
pub fn answers(kind: usize, batch: &Batch) -> impl Iterator<Item = Answer> + '_ {
    let rows = batch.as_rows();
    let tolls = (kind == TOLLS).then(|| {
        (
            rows.column::<UInt32Type>(0),
            rows.column::<UInt16Type>(1),
            rows.column::<Int8Type>(2),
            rows.column::<UInt64Type>(3),
        )
    });
    let accidents = (kind == ACCIDENTS)
        .then(|| (rows.column::<UInt16Type>(0), rows.column::<UInt32Type>(1), rows.column::<UInt8Type>(2)));
    let amounts = (kind > ACCIDENTS)
        .then(|| (rows.column::<UInt16Type>(0), rows.column::<UInt64Type>(1), rows.column::<UInt64Type>(2)));
    (0..rows.len()).map(move |row| {
        if let Some((vid, time, lav, toll)) = tolls {
            (vid[row].into(), time[row], lav[row].into(), toll[row])
        } else if let Some((time, vid, seg)) = accidents {
            (vid[row].into(), time[row], seg[row].into(), 0)
        } else {
            amounts.map_or((0, 0, 0, 0), |(time, qid, amount)| (qid[row], time[row], 0, amount[row]))
        }
    })
}

/// Compares the answers of every `every`th copy.
#[derive(Debug)]
pub struct CopyCheck {
    right: Arc<RightAnswers>,
    spans: Spans,
    every: u16,
    /// For each kind and checked copy, how many answers have come.
    seen: [Vec<usize>; KINDS],
    /// Answers that differ from the right ones, or that are too many.
    pub wrong: u64,
}

impl CopyCheck {
    /// Checks copies 0, `every`, `2 * every`, ... of `copies`.
    pub fn new(right: Arc<RightAnswers>, spans: Spans, copies: u16, every: u16) -> Self {
        let checked = usize::from(copies.div_ceil(every.max(1)));
        CopyCheck {
            right,
            spans,
            every: every.max(1),
            seen: std::array::from_fn(|_| vec![0; checked]),
            wrong: 0,
        }
    }

    /// Takes the next answers of a kind.
    pub fn take(&mut self, kind: usize, batch: &Batch) {
        let span = if kind <= ACCIDENTS { u64::from(self.spans.vids) } else { self.spans.qids };
        for (id, time, first, second) in answers(kind, batch) {
            let copy = id / span;
            if copy % u64::from(self.every) != 0 {
                continue;
            }
            let seen = &mut self.seen[kind][(copy / u64::from(self.every)) as usize];
            if self.right.kinds[kind].get(*seen) != Some(&(id % span, time, first, second)) {
                self.wrong += 1;
            }
            *seen += 1;
        }
    }

    /// Answers that should have come by now, if the first `complete` of each kind are due.
    pub fn missing(&self, due: [usize; KINDS]) -> u64 {
        let missing =
            |kind: usize| self.seen[kind].iter().map(move |seen| due[kind].saturating_sub(*seen) as u64);
        (0..KINDS).flat_map(missing).sum()
    }

    /// How many answers were compared.
    pub fn checked(&self) -> u64 {
        self.seen.iter().flatten().map(|seen| *seen as u64).sum()
    }
}
