//! The order of a pool's queries: the shorter the deadline, the higher the priority.

use std::time::Duration;

/// The level of a query among those that run: 0 for the shortest deadline, and one more for each longer one, up to the last
/// level. Without a deadline it is behind all that have one.
pub(super) fn level_of(
    own: Option<Duration>,
    all: impl Iterator<Item = Option<Duration>>,
    levels: u32,
) -> u32 {
    let key = |deadline: Option<Duration>| deadline.unwrap_or(Duration::MAX);
    let mut shorter: Vec<Duration> = all.map(key).filter(|deadline| *deadline < key(own)).collect();
    shorter.sort_unstable();
    shorter.dedup();
    u32::try_from(shorter.len()).unwrap_or(u32::MAX).min(levels.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_deadlines_go_first_and_equal_ones_together() {
        let ms = |time| Some(Duration::from_millis(time));
        let all = [ms(20), ms(60), ms(20), None, ms(100)];
        let levels = |most| all.map(|own| level_of(own, all.into_iter(), most));
        assert_eq!(levels(8), [0, 1, 0, 3, 2]);
        assert_eq!(levels(2), [0, 1, 0, 1, 1]);
        assert_eq!(levels(1), [0; 5]);
    }
}
