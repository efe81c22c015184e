//! The registry of counters: defined once, read by the command line, the metrics and the documentation.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($variant:ident $name:literal $unit:literal $meaning:literal;)*) => {
        /// A counter that every engine keeps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $(#[doc = $meaning] $variant),* }

        impl Counter {
            /// All counters.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),*];
            /// Its name.
            pub fn name(self) -> &'static str { match self { $(Counter::$variant => $name),* } }
            /// Its unit.
            pub fn unit(self) -> &'static str { match self { $(Counter::$variant => $unit),* } }
            /// What it counts.
            pub fn meaning(self) -> &'static str { match self { $(Counter::$variant => $meaning),* } }
        }
    };
}

counters! {
    EventsIn "events_in" "events" "Events that gateways took in.";
    CyclesCut "cycles_cut" "cycles" "Cycles that were closed.";
    CyclesCommitted "cycles_committed" "cycles" "Cycles that all sinks committed.";
    EventsCommitted "events_committed" "events" "Events of committed cycles.";
    RowsOut "rows_out" "rows" "Result rows handed to sinks.";
    UncommittedBytes "uncommitted_bytes" "bytes" "Results handed to sinks and not yet committed.";
    SplitTime "split_time" "ns" "Worker time spent in routing and gathering source batches.";
    OperatorTime "operator_time" "ns" "Worker time spent in operators.";
    OutputTime "output_time" "ns" "Time spent by sinks in preparing results.";
    CommitTime "commit_time" "ns" "Time spent by sinks in committing.";
    CutsBySize "cuts_by_size" "cycles" "Cycles closed because they were full.";
    CutsByWait "cuts_by_wait" "cycles" "Cycles closed because their oldest event had waited its share.";
    CutsByIdle "cuts_by_idle" "cycles" "Cycles closed because the workers were idle.";
    DeadlineMisses "deadline_misses" "events" "Events whose answer was committed after their deadline.";
    CostsExceeded "costs_exceeded" "cycles" "Cycles that took more processor time than was stated or measured.";
    PartitionMoves "partition_moves" "partitions" "Partitions of operators that moved from one worker to another.";
    HandoverTime "handover_time" "ns" "Time that cycles waited for partitions from another worker.";
    Stalls "stalls" "times" "Times that a cycle could not be closed for lack of credits.";
}

/// One engine's counters.
#[derive(Debug)]
pub struct Counters {
    values: Vec<AtomicU64>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters { values: Counter::ALL.iter().map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Counters {
    /// Adds to a counter.
    ///
    /// ```
    /// use tidemill_core::counters::{Counter, Counters};
    /// let counters = Counters::default();
    /// counters.add(Counter::EventsIn, 3);
    /// assert_eq!(counters.get(Counter::EventsIn), 3);
    /// ```
    pub fn add(&self, counter: Counter, amount: u64) {
        self.values[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// Subtracts from a counter that is a level.
    pub fn subtract(&self, counter: Counter, amount: u64) {
        self.values[counter as usize].fetch_sub(amount, Ordering::Relaxed);
    }

    /// A counter's value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }
}
