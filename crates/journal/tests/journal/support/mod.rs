//! What the tests of the journal share: rows, and a disk that loses power.
#![allow(dead_code)]

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use tidemill_core::source::Request;
use tidemill_core::{Cut, SplitChange};

/// Rows whose columns say which positions they have.
pub fn rows(start: u64, count: usize) -> RecordBatch {
    let numbers = (0..count as i64).map(|row| start as i64 + row);
    let texts = numbers.clone().map(|number| (number % 3 != 0).then(|| format!("row {number}")));
    let numbers = Arc::new(Int64Array::from_iter_values(numbers)) as _;
    let texts = Arc::new(texts.collect::<StringArray>()) as _;
    RecordBatch::try_from_iter_with_nullable([("number", numbers, false), ("text", texts, true)]).unwrap()
}

pub fn request(client: &str, sequence: u64) -> Request {
    Request { client: client.to_owned(), sequence }
}

pub fn cut(cycle: u64) -> Cut {
    Cut {
        cycle,
        positions: vec![cycle * 10, u64::MAX - cycle],
        watermarks: vec![i64::MIN, cycle as i64 - 5],
        idle: vec![cycle.is_multiple_of(2), false],
        ended_at: if cycle.is_multiple_of(6) { vec![cycle as i64, i64::MIN] } else { Vec::new() },
        stands_still_when_idle: cycle.is_multiple_of(4) && !cycle.is_multiple_of(6),
        closed_at_ns: cycle * 1000,
        snapshot: cycle.is_multiple_of(3),
        last: false,
        splits: match cycle % 5 {
            4 => vec![SplitChange { operator: "count".into(), input: 1, plan: vec![cycle as u8; 9] }],
            _ => vec![],
        },
    }
}
