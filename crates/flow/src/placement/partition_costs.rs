//! The processor time of each partition. Reading a thread's time takes as long as the work for some rows. So it is read for
//! all calls only in cycles with many rows per call, and otherwise in one cycle of sixteen, which counts for all of them.

use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_core::{Clock, ThreadTime};

/// With this many rows for each call, a cycle is measured.
const ROWS_PER_CALL_MIN: u64 = 4096;
/// With fewer rows, one cycle in this many is measured.
const CYCLES_PER_SAMPLE: u64 = 16;

pub(crate) struct PartitionCosts {
    /// By operator and partition; empty: nothing is measured.
    spent_ns: Vec<Vec<AtomicU64>>,
}

impl PartitionCosts {
    /// Measures nothing.
    pub fn unmeasured() -> PartitionCosts {
        PartitionCosts { spent_ns: Vec::new() }
    }

    /// Measures operators with these numbers of partitions.
    pub fn of(partitions: impl IntoIterator<Item = u32>) -> PartitionCosts {
        let zeros = |partitions: u32| (0..partitions).map(|_| AtomicU64::new(0)).collect();
        PartitionCosts { spent_ns: partitions.into_iter().map(zeros).collect() }
    }

    /// The calling thread begins with the calls of a cycle to an operator; `None`: they are not measured.
    pub fn begin(&self, operator: usize, cycle: u64, rows: u64, calls: usize) -> Option<CallTimes<'_>> {
        let spent_ns = self.spent_ns.get(operator).filter(|_| calls > 0)?;
        let weight = match rows / calls as u64 {
            ROWS_PER_CALL_MIN.. => 1,
            _ if is_sample(cycle) => CYCLES_PER_SAMPLE,
            _ => return None,
        };
        Some(CallTimes { spent_ns, weight, since_ns: ThreadTime.now_ns() })
    }

    /// What each partition of each operator has cost since the last call.
    pub fn take(&self) -> Vec<Vec<u64>> {
        let take = |spent: &AtomicU64| spent.swap(0, Ordering::Relaxed);
        self.spent_ns.iter().map(|operator| operator.iter().map(take).collect()).collect()
    }
}

/// By a hash of the number, because a load may have a period, too.
fn is_sample(cycle: u64) -> bool {
    (cycle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(CYCLES_PER_SAMPLE)
}

/// The times of consecutive calls.
pub(crate) struct CallTimes<'a> {
    spent_ns: &'a [AtomicU64],
    weight: u64,
    since_ns: u64,
}

impl CallTimes<'_> {
    /// The calls to a partition have ended, and those to the next one begin.
    pub fn end(&mut self, partition: u32) {
        let now_ns = ThreadTime.now_ns();
        let spent_ns = now_ns.saturating_sub(self.since_ns) * self.weight;
        self.since_ns = now_ns;
        self.spent_ns[partition as usize].fetch_add(spent_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_in_sixteen_is_a_sample_whatever_the_period_of_the_load() {
        for period in [1, 2, 3, 5, 16, 60, 128] {
            let samples = (0..100_000).map(|cycle| cycle * period).filter(|cycle| is_sample(*cycle)).count();
            assert!((5500..7000).contains(&samples), "{samples} with period {period}");
        }
    }

    #[test]
    fn each_partition_has_the_time_of_its_own_calls() {
        let costs = PartitionCosts::of([3, 1]);
        let busy = |ns: u64| {
            let start_ns = ThreadTime.now_ns();
            while ThreadTime.now_ns() < start_ns + ns {}
        };
        let mut times = costs.begin(0, 0, 1000, 2).unwrap();
        busy(3_000_000);
        times.end(2);
        busy(100_000);
        times.end(0);
        let spent = costs.take();
        assert!(spent[0][2] >= 3_000_000 && spent[0][0] >= 100_000, "{spent:?}");
        assert_eq!((spent[0][1], &spent[1][..]), (0, &[0][..]));
        assert_eq!(costs.take(), [vec![0; 3], vec![0]]);
        assert!(PartitionCosts::unmeasured().begin(0, 0, 1000, 1).is_none());
        assert!(costs.begin(0, 0, 0, 0).is_none(), "there are no calls");
        let cycle = (0..).find(|cycle| !is_sample(*cycle)).unwrap();
        assert!(costs.begin(0, cycle, 10, 2).is_none(), "it has few rows, and is no sample");
    }
}
