//! Whether rows are in time, decided for many rows of one connection at once.

use std::ops::Range;

/// The event time of a source while rows of one connection come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// How far the source is.
    pub time_ns: i64,
    /// How far the connection is.
    pub own_ns: i64,
    /// The event time of the other connections, beyond which this one cannot advance the source.
    pub others_ns: i64,
}

impl Reached {
    /// Passes rows with these event times, and says whether each of them was in time: at most `delay_ns` behind the source
    /// when it came.
    ///
    /// This is the one loop over all rows of every stream with event times, so it has no branch per row, and each row
    /// waits for one maximum of the row before.
    pub fn pass(&mut self, times_ns: &[i64], delay_ns: i64) -> bool {
        let Range { start: least_ns, end: most_ns } = self.bounds();
        let start_ns = self.own_ns.max(least_ns);
        // The source never goes back. So where the delay can be subtracted once, it always can.
        let is_far_enough = delay_ns >= 0 && least_ns.checked_sub(delay_ns).is_some();
        let (own_ns, all_in_time) = match is_far_enough && most_ns == i64::MAX {
            true => pass(times_ns, start_ns, |own_ns| own_ns - delay_ns),
            false => pass(times_ns, start_ns, |own_ns| own_ns.min(most_ns).saturating_sub(delay_ns)),
        };
        self.own_ns = own_ns;
        self.time_ns = own_ns.min(most_ns);
        all_in_time
    }

    /// The source stays between these, wherever the connection is.
    fn bounds(&self) -> Range<i64> {
        let least_ns = self.time_ns.max(self.own_ns.min(self.others_ns));
        least_ns..self.others_ns.max(least_ns)
    }
}

/// The maximum of `start_ns` and all times; and whether each time was at least the floor, given the maximum before it.
fn pass(times_ns: &[i64], start_ns: i64, floor_ns: impl Fn(i64) -> i64) -> (i64, bool) {
    times_ns.iter().fold((start_ns, true), |(own_ns, all_in_time), time_ns| {
        (own_ns.max(*time_ns), all_in_time & (*time_ns >= floor_ns(own_ns)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Row by row, as it is defined: the source is where the connection that is furthest behind is, and never goes back.
    fn row_by_row(mut reached: Reached, times_ns: &[i64], delay_ns: i64) -> (Vec<bool>, i64) {
        let mut in_time = Vec::new();
        reached.time_ns = reached.time_ns.max(reached.own_ns.min(reached.others_ns));
        for time_ns in times_ns {
            let behind_ns = i128::from(reached.time_ns) - i128::from(*time_ns);
            in_time.push(behind_ns <= i128::from(delay_ns));
            reached.own_ns = reached.own_ns.max(*time_ns);
            reached.time_ns = reached.time_ns.max(reached.own_ns.min(reached.others_ns));
        }
        (in_time, reached.time_ns)
    }

    fn time_ns() -> impl Strategy<Value = i64> {
        prop_oneof![-20..20i64, Just(i64::MIN), Just(i64::MIN + 1), Just(i64::MAX - 1), Just(i64::MAX)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn many_rows_at_once_are_judged_as_row_by_row(
            (time_ns, own_ns, others_ns) in (time_ns(), time_ns(), time_ns()),
            times_ns in prop::collection::vec(time_ns(), 0..12),
            delay_ns in prop_oneof![0..30i64, Just(i64::MAX)],
        ) {
            let mut reached = Reached { time_ns, own_ns, others_ns };
            let (in_time, expected_ns) = row_by_row(reached, &times_ns, delay_ns);
            let all_in_time = reached.pass(&times_ns, delay_ns);
            prop_assert_eq!(all_in_time, in_time.iter().all(|in_time| *in_time));
            prop_assert_eq!(reached.time_ns, expected_ns);
        }
    }
}
