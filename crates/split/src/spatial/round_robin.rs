//! One partition after the other, wherever points are. Spatial routing is compared with this.

/// Deals points to partitions in turn. All receive the same number, and points that are close to each other are
/// separated.
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
    /// This many partitions, at least one.
    pub fn new(partitions: u32) -> Self {
        RoundRobin { partitions: partitions.max(1), next: 0 }
    }

    /// The region of the next point.
    pub fn next_region(&mut self) -> u32 {
        let region = self.next;
        self.next = (region + 1) % self.partitions;
        region
    }
}
