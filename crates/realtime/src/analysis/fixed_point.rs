//! The least fixed point of a growing function of time.

use thiserror::Error;

/// How long a bound may be before it counts as none: an hour.
pub(crate) const LIMIT_NS: u64 = 3_600_000_000_000;

/// How often a fixed point is approached before it counts as none.
const STEPS_MAX: u32 = 1_000_000;

/// There is no bound: the work never ends, or not within an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no bound below an hour: the work and what interrupts it need all of the processor time")]
pub struct NoBound;

/// The least `w` with `w >= needed(w)`. `needed` must not fall where `w` grows. `from_ns` must not be above the least
/// fixed point; a fixed point of less work is a good start.
pub(crate) fn least_fixed_point(from_ns: u64, needed: impl Fn(u64) -> u64) -> Result<u64, NoBound> {
    let mut window_ns = from_ns;
    for _ in 0..STEPS_MAX {
        let needed_ns = needed(window_ns);
        if needed_ns <= window_ns {
            return Ok(window_ns);
        }
        if needed_ns > LIMIT_NS {
            return Err(NoBound);
        }
        window_ns = needed_ns;
    }
    Err(NoBound)
}

/// `ceil(a / b) * c`, at most `u64::MAX`.
pub(crate) fn ceil_times(a: u64, b: u64, c: u64) -> u64 {
    a.div_ceil(b.max(1)).saturating_mul(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_fixed_point_is_found_and_a_missing_one_is_said() {
        // 3 of work under a task of 1 in every 4: 3 + ceil(4 / 4) = 4.
        assert_eq!(least_fixed_point(3, |window| 3 + ceil_times(window, 4, 1)), Ok(4));
        assert_eq!(least_fixed_point(1, |window| window + 1), Err(NoBound));
        assert_eq!(least_fixed_point(1, |window| window.saturating_mul(2)), Err(NoBound));
        assert_eq!(ceil_times(u64::MAX, 1, 3), u64::MAX);
    }
}
