//! Which member holds which logical partition.

use std::collections::BTreeMap;

use crate::members::NodeId;

/// The member of each partition, by the partition's number.
///
/// ```
/// use tidemill_cluster::members::NodeId;
/// use tidemill_cluster::placement::Placement;
///
/// let [a, b, c] = [NodeId(1), NodeId(2), NodeId(3)];
/// let two = Placement::default().next(6, &[a, b]);
/// let three = two.next(6, &[a, b, c]);
/// assert_eq!(three.load(c), 2);
/// assert_eq!(two.moved(&three), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement(Vec<NodeId>);

impl Placement {
    /// Returns who holds a partition.
    pub fn holder(&self, partition: usize) -> Option<NodeId> {
        self.0.get(partition).copied()
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        self.0.len()
    }

    /// Returns how many partitions a member holds.
    pub fn load(&self, node: NodeId) -> usize {
        self.0.iter().filter(|holder| **holder == node).count()
    }

    /// Returns how many partitions have another holder in `next`.
    pub fn moved(&self, next: &Placement) -> usize {
        self.0.iter().zip(&next.0).filter(|(before, after)| before != after).count()
    }

    /// Spreads the partitions evenly over `members`: no two loads differ by more than one. Of all even placements it is one
    /// that moves the fewest. It depends on nothing but its arguments. Without members, it is empty.
    pub fn next(&self, partitions: usize, members: &[NodeId]) -> Placement {
        let mut loads: BTreeMap<NodeId, usize> = members.iter().map(|member| (*member, 0)).collect();
        if loads.is_empty() {
            return Placement::default();
        }
        for holder in self.0.iter().take(partitions) {
            if let Some(load) = loads.get_mut(holder) {
                *load += 1;
            }
        }
        let share = partitions / loads.len();
        let mut quotas: BTreeMap<NodeId, usize> = loads.keys().map(|member| (*member, share)).collect();
        // Those that hold the most keep one more: each then moves one partition less.
        let mut by_load: Vec<(NodeId, usize)> = loads.into_iter().collect();
        by_load.sort_by_key(|(member, load)| (std::cmp::Reverse(*load), *member));
        for (member, _) in by_load.iter().take(partitions % by_load.len()) {
            *quotas.entry(*member).or_default() += 1;
        }
        let mut holders: Vec<Option<NodeId>> = vec![None; partitions];
        for (partition, holder) in self.0.iter().take(partitions).enumerate() {
            if let Some(quota) = quotas.get_mut(holder).filter(|quota| **quota > 0) {
                *quota -= 1;
                holders[partition] = Some(*holder);
            }
        }
        let mut free = quotas.into_iter().flat_map(|(member, quota)| std::iter::repeat_n(member, quota));
        Placement(holders.into_iter().filter_map(|holder| holder.or_else(|| free.next())).collect())
    }
}
