//! A stream that is processed in batches.

use super::{Arrivals, CostModel};

/// A stream, what an event of it costs, and when its answer counts as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// How its events arrive.
    pub arrivals: Arrivals,
    /// The worst-case processor time of an event.
    pub event_cost_ns: u64,
    /// The worst-case processor time of a batch beside that of its events. On several processors it is not shared.
    pub batch_cost_ns: u64,
    /// When an event has its answer.
    pub completion: Completion,
}

/// When an event has its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// With its whole batch. So it is in Tidemill: no part of a cycle is visible.
    #[default]
    Batch,
    /// When its own work is done, even though its batch continues.
    Event,
}

/// When a batch is released.
///
/// It is released as soon as it is full, and when its oldest event has waited for the interval. Batches are processed one
/// after another, in order; one that becomes due while another is processed waits for that, and takes what has come until
/// then, up to the buffer. A periodic timer, which releases what waits at multiples of the interval, releases no batch later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The longest that an event waits for its batch while nothing else is processed. With 0, every burst is a batch.
    pub interval_ns: u64,
    /// The most events of a batch.
    pub buffer_max: u64,
}

impl Stream {
    /// A stream whose batches cost nothing by themselves, and are answered as a whole.
    pub fn new(arrivals: Arrivals, event_cost_ns: u64) -> Self {
        Stream { arrivals, event_cost_ns, batch_cost_ns: 0, completion: Completion::Batch }
    }

    /// A stream with these costs, whose batches are answered as a whole.
    pub fn of(arrivals: Arrivals, cost: CostModel) -> Self {
        Stream::new(arrivals, cost.event_ns).batch_cost(cost.batch_ns)
    }

    /// With a cost of each batch.
    #[must_use]
    pub fn batch_cost(self, batch_cost_ns: u64) -> Self {
        Stream { batch_cost_ns, ..self }
    }

    /// With another moment at which an event has its answer.
    #[must_use]
    pub fn completion(self, completion: Completion) -> Self {
        Stream { completion, ..self }
    }
}
