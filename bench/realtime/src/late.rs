//! Answers that came too late, each with what ran instead and what the host of the machine took.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tidemill_engine::{DeadlineMiss, Observer};
use tidemill_realtime::WhatRan;

/// An answer that came too late.
#[derive(Clone, Debug)]
pub struct LateAnswer {
    /// The number of its element.
    pub element: usize,
    pub latency: Duration,
    pub deadline: Duration,
    /// How long after its arrival it was sent. It is part of the latency.
    pub sent_late: Duration,
    /// How long the host had taken the cores of the pool and of the sender away between its arrival and its answer, in
    /// hundredths of a second.
    pub stolen: Duration,
    /// From the trace of the pool; `None` if another one was explained less than a tenth of a second before.
    pub what_ran: Option<WhatRan>,
}

impl fmt::Display for LateAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let LateAnswer { element, latency, deadline, sent_late, stolen, .. } = self;
        write!(
            formatter,
            "element {element}: {:.1} ms of {:.1}, sent {:.1} ms late, the host took {:.0} ms; ",
            ms(*latency),
            ms(*deadline),
            ms(*sent_late),
            ms(*stolen)
        )?;
        match &self.what_ran {
            Some(what_ran) => write!(formatter, "{what_ran}"),
            None => write!(formatter, "not explained, so soon after another one"),
        }
    }
}

/// What the engine says of late answers, by cycle. It keeps the last ones only, so it must be asked while the query runs.
#[derive(Debug, Default)]
pub struct Explanations(BTreeMap<u64, WhatRan>);

impl Explanations {
    /// Asks a running query.
    pub fn ask(&mut self, query: &Observer) {
        self.take(query.status().misses);
    }

    /// Takes over what a query has said.
    pub fn take(&mut self, misses: Vec<DeadlineMiss>) {
        self.0.extend(misses.into_iter().filter_map(|miss| Some((miss.cycle, miss.what_ran?))));
    }

    /// What ran instead of the answers of a cycle.
    pub fn of_cycle(&self, cycle: u64) -> Option<WhatRan> {
        self.0.get(&cycle).cloned()
    }
}
