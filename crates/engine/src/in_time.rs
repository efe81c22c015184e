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
    /// This is the one loop over all rows of every stream with event times, so it has no branch per row.
    pub fn pass(&mut self, times_ns: &[i64], delay_ns: i64) -> bool {
        let Range { start: least_ns, end: most_ns } = self.bounds();
        let start_ns = self.own_ns.max(least_ns);
        // The source never goes back. So where the delay can be subtracted once, it always can.
        let is_far_enough = delay_ns >= 0 && least_ns.checked_sub(delay_ns).is_some();
        let (own_ns, all_in_time) = if is_far_enough && most_ns == i64::MAX {
            pass(times_ns, start_ns, true, |own_ns| own_ns - delay_ns)
        } else {
            let floor_ns = |own_ns: i64| own_ns.min(most_ns).saturating_sub(delay_ns);
            pass(times_ns, start_ns, delay_ns >= 0, floor_ns)
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
/// `is_behind` says that the floor is never above that maximum: times that rise are then in time.
fn pass(times_ns: &[i64], start_ns: i64, is_behind: bool, floor_ns: impl Fn(i64) -> i64) -> (i64, bool) {
    times_ns.chunks(BLOCK).fold((start_ns, true), |(own_ns, all_in_time), block| {
        if is_behind && rises_from(own_ns, block) {
            (block[block.len() - 1], all_in_time)
        } else {
            block.iter().fold((own_ns, all_in_time), |(own_ns, all_in_time), time_ns| {
                (own_ns.max(*time_ns), all_in_time & (*time_ns >= floor_ns(own_ns)))
            })
        }
    })
}

/// How many times are looked at together: few enough that one that falls does not cost the others much.
const BLOCK: usize = 64;

/// The difference of two times that are between this and its negative does not overflow.
const QUARTER_NS: i64 = 1 << 62;

/// Whether times never fall. It may say no where differences could overflow. Most streams rise nearly always, and this takes
/// additions only, two rows at once, where the maximum row by row takes ten instructions.
fn rises_from(before_ns: i64, block: &[i64]) -> bool {
    let (first_ns, last_ns) = (block[0], block[block.len() - 1]);
    let outside = |time_ns: i64| time_ns.wrapping_add(QUARTER_NS);
    let falls = block.iter().zip(&block[1..]).fold(outside(last_ns), |falls, (time_ns, next_ns)| {
        falls | next_ns.wrapping_sub(*time_ns) | outside(*time_ns)
    });
    before_ns <= first_ns && falls >= 0
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

    /// A few times, or some blocks of times that rise but for a few.
    fn times_ns() -> impl Strategy<Value = Vec<i64>> {
        let few = prop::collection::vec(time_ns(), 0..12);
        let rising = prop::collection::vec(prop_oneof![60 => 0..2i64, 1 => -5..0i64], 0..200);
        let rising = (time_ns(), rising, any::<prop::sample::Index>(), prop::option::of(time_ns()));
        let rising = rising.prop_map(|(start_ns, steps_ns, at, other_ns)| {
            let rise = |time_ns: &mut i64, step_ns| {
                *time_ns = time_ns.saturating_add(step_ns);
                Some(*time_ns)
            };
            let mut times_ns: Vec<i64> = steps_ns.into_iter().scan(start_ns, rise).collect();
            if let (false, Some(other_ns)) = (times_ns.is_empty(), other_ns) {
                *at.get_mut(&mut times_ns) = other_ns;
            }
            times_ns
        });
        prop_oneof![few, rising]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn many_rows_at_once_are_judged_as_row_by_row(
            (time_ns, own_ns, others_ns) in (time_ns(), time_ns(), time_ns()),
            times_ns in times_ns(),
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
