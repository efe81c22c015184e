//! Section 8: queries. Type 4 is "accepted and ignored".

use std::collections::BTreeMap;

use tidemill_linear_road::event::{BalanceQuery, Event, ExpenditureQuery, HistoryRow};

use super::Second;
use super::tolls::Charge;

/// All right answers to one query of type 2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BalanceAnswer {
    pub qid: u64,
    pub time: u16,
    pub vid: u32,
    /// Every permitted `(ResultTime, Bal)`, by `ResultTime`: 61 of them, the last for the query's own second.
    pub permitted: Vec<(Second, u64)>,
}

/// The answer to one query of type 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpenditureAnswer {
    pub qid: u64,
    pub time: u16,
    pub bal: u64,
}

/// "Any integer ResultTime in `[Time-60, Time]` is allowed, but the balance must be exact *as of that ResultTime*.
/// [...] Every query is answered."
pub fn balances(events: &[Event], charges: &[Charge]) -> Vec<BalanceAnswer> {
    let mut accounts: BTreeMap<u32, Vec<Charge>> = BTreeMap::new();
    for charge in charges {
        accounts.entry(charge.vid).or_default().push(*charge);
    }
    let mut answers: Vec<BalanceAnswer> = events
        .iter()
        .filter_map(|event| match event {
            Event::Balance(query) => {
                Some(permitted_answers(query, accounts.get(&query.vid).map_or(&[], Vec::as_slice)))
            }
            _ => None,
        })
        .collect();
    answers.sort_by_key(|answer| answer.qid);
    answers
}

fn permitted_answers(query: &BalanceQuery, of_the_car: &[Charge]) -> BalanceAnswer {
    let time = Second::from(query.time);
    BalanceAnswer {
        qid: query.qid,
        time: query.time,
        vid: query.vid,
        permitted: (time - 60..=time).map(|second| (second, balance(of_the_car, second))).collect(),
    }
}

/// "Sum of all tolls charged to the car (on all expressways) at or before ResultTime." Unknown cars have 0.
fn balance(of_the_car: &[Charge], result_time: Second) -> u64 {
    of_the_car
        .iter()
        .filter(|charge| Second::from(charge.time) <= result_time)
        .map(|charge| charge.toll)
        .sum()
}

/// "Bal = toll in the history for (VID, Day, XWay). [...] No row: no answer is expected."
pub fn expenditures(events: &[Event], history: &[HistoryRow]) -> Vec<ExpenditureAnswer> {
    let paid: BTreeMap<(u32, u8, u16), u32> =
        history.iter().map(|row| ((row.vid, row.day, row.xway), row.toll)).collect();
    let answer = |query: &ExpenditureQuery| {
        let toll = paid.get(&(query.vid, query.day, query.xway))?;
        Some(ExpenditureAnswer { qid: query.qid, time: query.time, bal: u64::from(*toll) })
    };
    let mut answers: Vec<ExpenditureAnswer> = events
        .iter()
        .filter_map(|event| match event {
            Event::Expenditure(query) => answer(query),
            _ => None,
        })
        .collect();
    answers.sort();
    answers
}
