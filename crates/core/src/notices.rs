//! Noteworthy facts about the input of a source.

/// The newest facts about the input that caused nothing to be left out, for example that a folder is waited for, and how many
/// there were.
///
/// ```
/// use tidemill_core::Notices;
/// let mut notices = Notices::default();
/// (1..=10).for_each(|day| notices.add(format!("day {day}")));
/// assert_eq!((notices.count(), notices.newest().len()), (10, Notices::KEPT_MAX));
/// assert_eq!(notices.since(9), ["day 10"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    count: u64,
    newest: Vec<String>,
}

impl Notices {
    /// How many are kept.
    pub const KEPT_MAX: usize = 8;

    /// As many as these were, with the texts of the newest ones.
    pub fn of(count: u64, newest: Vec<String>) -> Notices {
        Notices { count: count.max(newest.len() as u64), newest }
    }

    /// Adds a notice. The oldest one goes if there is no room.
    pub fn add(&mut self, text: impl Into<String>) {
        self.count += 1;
        if self.newest.len() >= Notices::KEPT_MAX {
            self.newest.remove(0);
        }
        self.newest.push(text.into());
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: Notices) {
        self.count += other.count - other.newest.len() as u64;
        other.newest.into_iter().for_each(|text| self.add(text));
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The newest ones, oldest first.
    pub fn newest(&self) -> &[String] {
        &self.newest
    }

    /// Those that came after the first `count`, as far as they are kept.
    pub fn since(&self, count: u64) -> &[String] {
        let wanted = usize::try_from(self.count.saturating_sub(count)).unwrap_or(usize::MAX);
        &self.newest[self.newest.len().saturating_sub(wanted)..]
    }

    /// Changes the texts.
    pub fn change(&mut self, change: impl FnMut(&mut String)) {
        self.newest.iter_mut().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_notices_are_counted_whether_kept_or_not() {
        let numbered = |range: std::ops::Range<u64>| {
            let mut notices = Notices::default();
            range.for_each(|number| notices.add(number.to_string()));
            notices
        };
        let mut merged = numbered(0..3);
        merged.merge(numbered(3..20));
        assert_eq!(merged.count(), 20);
        assert_eq!(merged.newest(), numbered(0..20).newest());
        assert_eq!(merged.since(18), ["18", "19"]);
        assert_eq!((merged.since(2).len(), merged.since(20).len(), merged.since(30).len()), (8, 0, 0));
    }
}
