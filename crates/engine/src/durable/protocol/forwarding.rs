//! Forwarding: each row of the journal goes to the gateway once, in order.

/// How far a source's rows were forwarded.
pub(crate) struct Forwarding {
    /// The position that is forwarded next.
    next: u64,
}

impl Forwarding {
    /// From this position on.
    pub fn from(next: u64) -> Self {
        Forwarding { next }
    }

    /// The position that is forwarded next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A record of so many rows is at hand. Returns how many of them, its first ones, were forwarded before, and counts
    /// the others as forwarded; `None`: there are no others, or rows before it are missing.
    pub fn take(&mut self, start: u64, rows: u64) -> Option<u64> {
        let known = self.next.checked_sub(start).filter(|known| *known < rows)?;
        self.next = start + rows;
        Some(known)
    }
}
