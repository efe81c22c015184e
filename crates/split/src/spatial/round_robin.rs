//! One partition after the other, wherever points are: what spatial routing is compared with.

/// Deals points to partitions in turn. All get equally many, and points that are near each other are torn apart.
///
/// ```
/// let mut turns = tidemill_split::spatial::RoundRobin::new(3);
/// assert_eq!([turns.next_region(), turns.next_region(), turns.next_region(), turns.next_region()], [0, 1, 2, 0]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundRobin {
    partitions: u32,
    next: u32,
}

impl RoundRobin {
    /// So many partitions, of which there must be at least one.
    pub fn new(partitions: u32) -> Self {
        RoundRobin { partitions: partitions.max(1), next: 0 }
    }

    /// Where the next point goes.
    pub fn next_region(&mut self) -> u32 {
        let region = self.next;
        self.next = (region + 1) % self.partitions;
        region
    }
}
