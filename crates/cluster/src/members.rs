//! Nodes, and who of them is alive.

use std::collections::BTreeMap;
use std::time::Duration;

/// The number of a node within its cluster. The coordinator gives it to a name once, and never to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// How often a node has started; a restarted node has a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// Suspects nodes from which no heartbeat has come for some time.
///
/// Times are those of one clock, the observer's own, which never goes back. So clocks that differ between machines change
/// only how soon a node is suspected. A suspicion is never proof of death: what a suspected node may still do is decided by
/// seals and fences.
///
/// ```
/// use std::time::Duration;
/// use tidemill_cluster::members::{FailureDetector, Incarnation, NodeId};
///
/// let ms = Duration::from_millis;
/// let mut detector = FailureDetector::new(ms(200));
/// detector.watch(NodeId(1), ms(0));
/// assert!(detector.heard(NodeId(1), Incarnation(3), ms(150)));
/// assert!(!detector.is_suspected(NodeId(1), ms(350)));
/// assert!(detector.is_suspected(NodeId(1), ms(351)));
/// // A message of the life before does not count.
/// assert!(!detector.heard(NodeId(1), Incarnation(2), ms(352)));
/// assert!(detector.is_suspected(NodeId(1), ms(353)));
/// ```
#[derive(Clone, Debug)]
pub struct FailureDetector {
    suspect_after: Duration,
    nodes: BTreeMap<NodeId, LastHeard>,
}

#[derive(Clone, Copy, Debug)]
struct LastHeard {
    /// `None` until the first heartbeat.
    incarnation: Option<Incarnation>,
    at: Duration,
}

impl FailureDetector {
    /// Creates one that suspects a node that was not heard of for longer than `suspect_after`.
    pub fn new(suspect_after: Duration) -> FailureDetector {
        FailureDetector { suspect_after, nodes: BTreeMap::new() }
    }

    /// Expects heartbeats of a node from now on. A node that is watched already keeps its time.
    pub fn watch(&mut self, node: NodeId, now: Duration) {
        self.nodes.entry(node).or_insert(LastHeard { incarnation: None, at: now });
    }

    /// Expects nothing of a node any more.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Records a heartbeat. Returns false if it is of an earlier life of the node or the node is not watched; it then counts
    /// for nothing.
    pub fn heard(&mut self, node: NodeId, incarnation: Incarnation, now: Duration) -> bool {
        let Some(last) = self.nodes.get_mut(&node) else { return false };
        if last.incarnation > Some(incarnation) {
            return false;
        }
        last.incarnation = Some(incarnation);
        // Threads may report out of order.
        last.at = last.at.max(now);
        true
    }

    /// Returns whether a node was not heard of for too long. A node that is not watched is suspected.
    pub fn is_suspected(&self, node: NodeId, now: Duration) -> bool {
        self.nodes.get(&node).is_none_or(|last| now.saturating_sub(last.at) > self.suspect_after)
    }

    /// Returns the watched nodes that are not suspected, in the order of their numbers.
    pub fn alive(&self, now: Duration) -> Vec<NodeId> {
        self.nodes.keys().copied().filter(|node| !self.is_suspected(*node, now)).collect()
    }
}

/// Returns the node that should act when the leader is suspected: the first of those that are alive. Several nodes can
/// think that it is them; compare-and-set then decides.
pub fn candidate(alive: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
    alive.into_iter().min()
}
