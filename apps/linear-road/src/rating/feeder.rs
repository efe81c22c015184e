//! Copies of the base group's events with shifted ids, as chunks for the gateway: memory speed, no parsing.

use std::ops::Range;

use tidemill_engine::Chunk;

use super::window::Window;
use crate::intake::{Reports, balance_batch, expenditure_batch};

/// How ids of copies are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// Expressways of the base group; copy `k` has expressways `k * expressways ..`.
    pub expressways: u16,
    /// Vehicle ids per copy.
    pub vids: u32,
    /// Query ids per copy.
    pub qids: u64,
}

/// The events `events` of the window, for each copy after the other.
pub fn chunk(window: &Window, events: Range<u32>, spans: Spans, copies: Range<u16>) -> Chunk {
    let events_per_copy = events.end - events.start;
    let reports_in = window.reports_in(&events);
    let balances_in = window.balances_in(&events);
    let expenditures_in = window.expenditures_in(&events);
    let mut reports = Reports::with_capacity(reports_in.len() * copies.len());
    let mut balances = Vec::with_capacity(balances_in.len() * copies.len());
    let mut expenditures = Vec::with_capacity(expenditures_in.len() * copies.len());
    let mut copies_done = 0;
    for copy in copies {
        let vid_shift = u32::from(copy) * spans.vids;
        let qid_shift = u64::from(copy) * spans.qids;
        let xway_shift = copy * spans.expressways;
        let position = |base: u32| base - events.start + copies_done * events_per_copy;
        reports.extend_shifted(&window.reports, reports_in.clone(), vid_shift, xway_shift, position);
        for (base, mut query) in window.balances[balances_in.clone()].iter().copied() {
            query.vid += vid_shift;
            query.qid += qid_shift;
            balances.push((position(base), query));
        }
        for (base, mut query) in window.expenditures[expenditures_in.clone()].iter().copied() {
            query.vid += vid_shift;
            query.qid += qid_shift;
            query.xway += xway_shift;
            expenditures.push((position(base), query));
        }
        copies_done += 1;
    }
    let time = window.reports.time[reports_in].last().copied().unwrap_or(0);
    Chunk {
        streams: vec![reports.into_batch(), balance_batch(&balances), expenditure_batch(&expenditures)],
        events: events_per_copy * copies_done,
        watermark: i64::from(time),
        arrived_ns: None,
        idle: false,
    }
}
