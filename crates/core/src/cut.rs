//! Cuts: where one cycle ends and the next begins, and the log that remembers them.

use std::sync::{Arc, Mutex};

use crate::error::Cause;

/// Everything that a cycle's result may depend on besides the events themselves.
///
/// Cycle `n` holds the events of each gateway from its position in cut `n - 1` up to its position in cut
/// `n`. Cycles are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The cycle's number.
    pub cycle: u64,
    /// For each gateway, in the plan's order, one past the position of its last event in the cycle.
    pub positions: Vec<u64>,
    /// For each gateway, the event time up to which it is complete; `i64::MIN` before its first event,
    /// `i64::MAX` once it has ended, so that what waits for the watermark comes out before the query ends.
    pub watermarks: Vec<i64>,
    /// When the cycle was closed, on the engine's clock.
    pub closed_at_ns: u64,
    /// Whether the state is snapshotted at the end of the cycle.
    pub snapshot: bool,
    /// Whether all gateways have ended: no cycle follows.
    pub last: bool,
}

impl Cut {
    /// The event time up to which all gateways are complete.
    pub fn watermark(&self) -> i64 {
        self.watermarks.iter().copied().min().unwrap_or(i64::MIN)
    }
}

/// Where cuts are logged, in order, before the cycle is processed.
pub trait CutLog: Send {
    /// Logs the cut. Once this returns, the cut is as durable as the log promises.
    ///
    /// # Errors
    /// If the cut cannot be logged; the engine then stops without processing the cycle.
    fn append(&mut self, cut: &Cut) -> Result<(), Cause>;
}

/// A cut log in memory. It keeps the last `capacity` cuts and is shared by its clones.
///
/// ```
/// use tidemill_core::{Cut, CutLog, MemoryCutLog};
/// let mut log = MemoryCutLog::new(2);
/// for cycle in 0..3 {
///     let cut = Cut { cycle, positions: vec![cycle * 10], watermarks: vec![0], closed_at_ns: 0, snapshot: false, last: false };
///     log.append(&cut).unwrap();
/// }
/// assert_eq!(log.cuts().iter().map(|cut| cut.cycle).collect::<Vec<_>>(), [1, 2]);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryCutLog {
    capacity: usize,
    cuts: Arc<Mutex<std::collections::VecDeque<Cut>>>,
}

impl MemoryCutLog {
    /// A log that keeps the last `capacity` cuts.
    pub fn new(capacity: usize) -> Self {
        MemoryCutLog { capacity, cuts: Arc::default() }
    }

    /// The cuts that are kept, oldest first.
    pub fn cuts(&self) -> Vec<Cut> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, std::collections::VecDeque<Cut>> {
        self.cuts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl CutLog for MemoryCutLog {
    fn append(&mut self, cut: &Cut) -> Result<(), Cause> {
        let mut cuts = self.lock();
        while cuts.len() >= self.capacity.max(1) {
            cuts.pop_front();
        }
        cuts.push_back(cut.clone());
        Ok(())
    }
}
