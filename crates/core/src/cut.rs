//! Cuts, which say where one cycle ends and the next begins, and the log that stores them.

use std::sync::Arc;

use parking_lot::Mutex;

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
    /// For each gateway, the event time up to which it is complete. It is `i64::MIN` before the gateway's first event,
    /// and `i64::MAX` once it has ended, so that everything that waits for the watermark comes out before the query
    /// ends.
    pub watermarks: Vec<i64>,
    /// For each gateway, whether it counts as idle. An idle gateway does not hold back the watermark. Empty if none is
    /// idle.
    pub idle: Vec<bool>,
    /// For each gateway that has ended, the event time up to which it was complete just before; `i64::MIN` for the others. Empty if
    /// none has ended, and in cuts of earlier versions.
    pub ended_at: Vec<i64>,
    /// Whether time stands still while all gateways are idle, as it did when this cut was logged. Then it depends on which of them
    /// has fallen silent first. Only cuts of earlier versions say so.
    pub stands_still_when_idle: bool,
    /// When the cycle was closed, on the engine's clock.
    pub closed_at_ns: u64,
    /// Whether the state is snapshotted at the end of the cycle.
    pub snapshot: bool,
    /// Whether all gateways have ended: no cycle follows.
    pub last: bool,
    /// The operator inputs that are split differently from this cycle on.
    pub splits: Vec<SplitChange>,
}

/// A change of how an input is split. It changes no result. It is logged to explain how long a cycle took, and so that
/// a replay splits in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitChange {
    /// The operator's name.
    pub operator: String,
    /// The number of its input.
    pub input: u32,
    /// The split plan, as versioned bytes.
    pub plan: Vec<u8>,
}

impl Cut {
    /// A cut before any event, for computing what depends on no cut.
    pub fn first() -> Cut {
        Cut {
            cycle: 0,
            positions: Vec::new(),
            watermarks: Vec::new(),
            idle: Vec::new(),
            ended_at: Vec::new(),
            stands_still_when_idle: false,
            closed_at_ns: 0,
            snapshot: false,
            last: false,
            splits: Vec::new(),
        }
    }

    /// The event time up to which all gateways that are not idle are complete. See [`Cut::watermark_of`].
    pub fn watermark(&self) -> i64 {
        self.watermark_of(0..self.watermarks.len())
    }

    /// The event time up to which these gateways are complete, except for idle ones.
    ///
    /// It is `i64::MAX` only once all of them have ended. If no gateway is active, those that are idle do not wait for each other
    /// either, so the result is the latest of theirs and of those that have ended. Time then is the same whichever of them fell
    /// silent or ended first, because it is where the last one of them would have carried it alone. A gateway that returns from
    /// idleness may lower the result, so a caller that keeps time by it must keep the largest.
    ///
    /// ```
    /// use tidemill_core::Cut;
    /// let cut = Cut { watermarks: vec![i64::MAX, 70, 90], idle: vec![false, true, false], ..Cut::first() };
    /// let cut = Cut { ended_at: vec![80, i64::MIN, i64::MIN], ..cut };
    /// assert_eq!(cut.watermark_of([0, 1, 2]), 90);
    /// assert_eq!(cut.watermark_of([0, 1]), 80, "gateway 1 may continue");
    /// assert_eq!(cut.watermark_of([0]), i64::MAX);
    /// ```
    pub fn watermark_of(&self, gateways: impl IntoIterator<Item = usize>) -> i64 {
        let (mut least_active, mut latest_idle, mut latest_end) = (None::<i64>, None::<i64>, i64::MIN);
        for gateway in gateways {
            let watermark = self.watermarks[gateway];
            latest_end = latest_end.max(self.ended_at.get(gateway).copied().unwrap_or(i64::MIN));
            if self.idle.get(gateway).copied().unwrap_or(false) {
                latest_idle = latest_idle.max(Some(watermark));
            } else {
                least_active = Some(least_active.map_or(watermark, |least| least.min(watermark)));
            }
        }
        let when_idle = latest_idle.filter(|_| !self.stands_still_when_idle).unwrap_or(i64::MIN);
        match (least_active, latest_idle) {
            (None, _) => when_idle,
            (Some(i64::MAX), Some(_)) => when_idle.max(latest_end),
            (Some(least), _) => least,
        }
    }
}

/// Where cuts are logged, in order, before the cycle is processed.
pub trait CutLog: Send {
    /// Logs the cut. When this returns, the cut is as durable as the log promises.
    ///
    /// # Errors
    /// If the cut cannot be logged. The engine then stops without processing the cycle.
    fn append(&mut self, cut: &Cut) -> Result<(), Cause>;
}

/// A cut log in memory. It keeps the last `capacity` cuts and is shared by its clones.
///
/// ```
/// use tidemill_core::{Cut, CutLog, MemoryCutLog};
/// let mut log = MemoryCutLog::new(2);
/// for cycle in 0..3 {
///     let cut = Cut { cycle, positions: vec![cycle * 10], ..Cut::first() };
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

    /// The stored cuts, oldest first.
    pub fn cuts(&self) -> Vec<Cut> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, std::collections::VecDeque<Cut>> {
        self.cuts.lock()
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
