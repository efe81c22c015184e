//! Forwarding: each row of the journal goes to the gateway once, in order.

/// How far a source's rows were forwarded.
pub(crate) struct Forwarding {
    /// The position that is forwarded next.
    next: u64,
}

impl Forwarding {
    /// Begins at this position.
    pub fn from(next: u64) -> Self {
        Forwarding { next }
    }

    /// The position that is forwarded next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Accepts a record of `rows` rows. Returns how many of its leading rows were already forwarded, and counts the
    /// others as forwarded; `None`: there are no others, or rows before it are missing.
    pub fn take(&mut self, start: u64, rows: u64) -> Option<u64> {
        let known = self.next.checked_sub(start).filter(|known| *known < rows)?;
        self.next = start + rows;
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_goes_on_inside_a_record_leaves_out_what_was_forwarded() {
        let mut forwarding = Forwarding::from(7);
        assert_eq!(forwarding.take(4, 3), None, "all of it was");
        assert_eq!(forwarding.take(8, 2), None, "position 7 is missing before it");
        assert_eq!(forwarding.take(5, 4), Some(2));
        assert_eq!(forwarding.take(5, 4), None);
        assert_eq!((forwarding.take(9, 1), forwarding.next()), (Some(0), 10));
    }
}
