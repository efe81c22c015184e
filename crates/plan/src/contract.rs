//! When cycles close, and what is bounded.

use std::time::Duration;

use tidemill_core::MemoryBudget;

/// When a cycle is closed: when it is full, when its oldest event has waited its share of the latency bound, or when
/// the workers are idle and events are waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CyclePolicy {
    /// The most events in a cycle. The default keeps a worker's part of a cycle close to its processor, with rows of 64
    /// bytes.
    pub events_max: u32,
    /// The longest that an event waits for its cycle to close; `None`: forever.
    pub wait_max: Option<Duration>,
    /// Whether idle workers close a cycle as soon as events are waiting.
    pub close_when_idle: bool,
}

impl Default for CyclePolicy {
    fn default() -> Self {
        CyclePolicy { events_max: 32_768, wait_max: Some(Duration::from_millis(5)), close_when_idle: true }
    }
}

impl CyclePolicy {
    /// Cycles of exactly this many events, except for the last: the same cuts in every run.
    pub fn fixed(events: u32) -> Self {
        CyclePolicy { events_max: events, wait_max: None, close_when_idle: false }
    }
}

/// What is bounded while a query runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Cycles closed and not yet committed by any sink.
    pub cycles_in_flight_max: u64,
    /// Cycles closed and not yet committed by the sink that is furthest behind. The others continue until then.
    pub cycles_behind_max: u64,
    /// Bytes of results not yet committed, of copies of broadcast rows, and of rows between processes.
    pub uncommitted_bytes_max: u64,
    /// How many batches of a gateway may wait for a cycle before its sender is held back; half of them wait in the
    /// gateway's queue.
    pub gateway_batches_max: usize,
    /// The memory that its operators' state counts against.
    pub memory: MemoryBudget,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            cycles_in_flight_max: 8,
            cycles_behind_max: 65_536,
            uncommitted_bytes_max: 256 << 20,
            gateway_batches_max: 64,
            memory: MemoryBudget::unlimited(),
        }
    }
}
