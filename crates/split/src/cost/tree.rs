//! One splitter, and trees of splitters (Paper IV).

use super::{Proportions, rate_max};

/// What a splitter costs per event, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitterCosts {
    /// To take an event in: `cc`.
    pub consume_ns: f64,
    /// To compute the destination of one copy of it: `cp`.
    pub process_ns: f64,
    /// To write one copy: `ce`.
    pub emit_ns: f64,
}

impl SplitterCosts {
    /// The ratio of consuming to the rest: `a = cc / (cp + ce)`.
    pub fn consume_ratio(&self) -> f64 {
        self.consume_ns / (self.process_ns + self.emit_ns)
    }

    /// A single splitter, per event: `cc + cp (o + r + w b) + ce (r + w b)`.
    ///
    /// ```
    /// use tidemill_split::cost::{Proportions, SplitterCosts};
    /// let costs = SplitterCosts { consume_ns: 1.0, process_ns: 2.0, emit_ns: 3.0 };
    /// let parts = Proportions::new(0.8, 0.1).unwrap();
    /// let cost_ns = costs.fsplit(parts, 4);
    /// assert!((cost_ns - (1.0 + 2.0 * (0.1 + 0.8 + 0.4) + 3.0 * (0.8 + 0.4))).abs() < 1e-12);
    /// ```
    pub fn fsplit(&self, parts: Proportions, width: u32) -> f64 {
        let copies = parts.copies(width);
        self.consume_ns + self.process_ns * (parts.omitted() + copies) + self.emit_ns * copies
    }

    /// A single splitter if broadcast rows are shared, per event: `cc + cp (o + r + b) + ce (r + b)`. What each partition
    /// then does with them is a cost of the partition.
    ///
    /// ```
    /// use tidemill_split::cost::{Proportions, SplitterCosts};
    /// let costs = SplitterCosts { consume_ns: 1.0, process_ns: 2.0, emit_ns: 3.0 };
    /// assert_eq!(costs.shared_fsplit(Proportions::new(0.5, 0.25).unwrap()), 1.0 + 2.0 + 3.0 * 0.75);
    /// ```
    pub fn shared_fsplit(&self, parts: Proportions) -> f64 {
        self.fsplit(parts, 1)
    }

    /// For each level of a tree, the cost of one of its splitters per event of the tree's input, if broadcast rows are
    /// shared: the root writes them once, and they pass the other levels by reference, where only routed rows cost.
    ///
    /// ```
    /// use tidemill_split::cost::{Proportions, SplitterCosts};
    /// let costs = SplitterCosts { consume_ns: 1.0, process_ns: 2.0, emit_ns: 3.0 };
    /// let parts = Proportions::new(0.75, 0.25).unwrap();
    /// assert_eq!(costs.shared_tree_levels(parts, &[2, 4, 8]), [6.0, 0.75 / 2.0 * 6.0, 0.75 / 8.0 * 6.0]);
    /// ```
    pub fn shared_tree_levels(&self, parts: Proportions, fan_outs: &[u32]) -> Vec<f64> {
        let row_ns = self.consume_ns + self.process_ns + self.emit_ns;
        let mut nodes = 1.0;
        let mut level_cost = |fan_out: &u32| {
            let cost = parts.routed() * row_ns / nodes;
            nodes *= f64::from(*fan_out);
            cost
        };
        let mut levels: Vec<f64> = fan_outs.iter().map(&mut level_cost).collect();
        if let Some(root) = levels.first_mut() {
            *root = self.shared_fsplit(parts);
        }
        levels
    }

    /// For each level of a tree, the cost of one of its splitters per event of the tree's input: `C_l = Φ_(l-1) (cc +
    /// (cp + ce) (r_l + f_l b_l))` for a rate of 1.
    ///
    /// The formula ignores omitted events, because they end at the root. Their cost there, `o (cc + cp)`, is added, so
    /// that the root is a splitter like that of [`fsplit`](Self::fsplit).
    pub fn tree_levels(&self, parts: Proportions, fan_outs: &[u32]) -> Vec<f64> {
        let mut nodes = 1.0;
        let mut level_cost = |fan_out: &u32| {
            let cost = self.level(parts, nodes, f64::from(*fan_out));
            nodes *= f64::from(*fan_out);
            cost
        };
        let mut levels: Vec<f64> = fan_outs.iter().map(&mut level_cost).collect();
        if let Some(root) = levels.first_mut() {
            *root += parts.omitted() * (self.consume_ns + self.process_ns);
        }
        levels
    }

    /// One splitter of a level that has this many splitters.
    fn level(&self, parts: Proportions, nodes: f64, fan_out: f64) -> f64 {
        let (routed, broadcast) = (parts.routed(), parts.broadcast());
        let rate = broadcast + routed / nodes;
        if rate == 0.0 {
            return 0.0;
        }
        let part = routed + broadcast * nodes;
        let (level_routed, level_broadcast) = (routed / part, broadcast * nodes / part);
        rate * (self.consume_ns
            + (self.process_ns + self.emit_ns) * (level_routed + fan_out * level_broadcast))
    }

    /// All splitters of a tree together, per event: `C = sum_l λ_(l-1) C_l`.
    pub fn tree_total(&self, parts: Proportions, fan_outs: &[u32]) -> f64 {
        let levels = self.tree_levels(parts, fan_outs);
        let nodes =
            (0..fan_outs.len()).map(|level| fan_outs[..level].iter().map(|f| f64::from(*f)).product());
        nodes.zip(levels).map(|(nodes, cost): (f64, f64)| nodes * cost).sum()
    }

    /// The rate that a tree reaches with a core for each splitter: `Φ_max = E / max_l C_l`.
    pub fn tree_rate_max(&self, parts: Proportions, fan_outs: &[u32]) -> f64 {
        rate_max(self.tree_levels(parts, fan_outs).into_iter().fold(0.0, f64::max))
    }
}

/// The fan-outs of a tree that needs no knowledge of the stream: 2, 4, 8, ... until there are `width` outputs. The last
/// one is as small as possible.
///
/// ```
/// assert_eq!(tidemill_split::cost::exptree(64), [2, 4, 8]);
/// assert_eq!(tidemill_split::cost::exptree(9), [2, 4, 2]);
/// ```
pub fn exptree(width: u32) -> Vec<u32> {
    fan_outs(width, |level, _| 2f64.powi(level as i32))
}

/// The fan-outs of the tree with the highest rate, and among these the one with the fewest levels: `f_1 = 2, f_l = 2 +
/// floor((r / b) (1 + a) (1 - 1 / λ_(l-1)))`, where `a` is [`SplitterCosts::consume_ratio`]. The last one is as small
/// as possible.
///
/// ```
/// use tidemill_split::cost::{Proportions, maxtree};
/// assert_eq!(maxtree(64, Proportions::broadcast_part(0.0).unwrap(), 1.0), [2, 32]);
/// assert_eq!(maxtree(64, Proportions::broadcast_part(1.0).unwrap(), 1.0), [2; 6]);
/// ```
pub fn maxtree(width: u32, parts: Proportions, consume_ratio: f64) -> Vec<u32> {
    let ratio = match parts.broadcast() {
        // Nothing is broadcast: one more level takes all outputs there are.
        0.0 => f64::INFINITY,
        broadcast => parts.routed() / broadcast,
    };
    fan_outs(width, |level, nodes| match level {
        1 => 2.0,
        _ => 2.0 + (ratio * (1.0 + consume_ratio) * (1.0 - 1.0 / nodes as f64)).floor(),
    })
}

/// Adds levels with the wanted fan-outs until there are enough outputs. Even one output needs a splitter, because it
/// omits rows.
fn fan_outs(width: u32, wanted: impl Fn(u32, u64) -> f64) -> Vec<u32> {
    let width = u64::from(width.max(1));
    let (mut fan_outs, mut nodes) = (Vec::new(), 1);
    while nodes < width || fan_outs.is_empty() {
        let most = width.div_ceil(nodes);
        let wanted = wanted(fan_outs.len() as u32 + 1, nodes);
        let fan_out = if wanted < most as f64 { wanted as u64 } else { most };
        fan_outs.push(fan_out as u32);
        nodes *= fan_out;
    }
    fan_outs
}

/// The multi-level hash `h_l = floor(rfn(t) / λ_(l-1)) mod f_l`: which output of its splitter on `level` (from 1) leads
/// to a destination.
///
/// The splitters of level `l` are numbered so that the path `h_1, ..., h_l` leads to number `h_1 + λ_1 h_2 + ... +
/// λ_(l-1) h_l`, which is `rfn(t) mod λ_l`, and at the leaves `rfn(t)` itself.
///
/// ```
/// use tidemill_split::cost::output_at_level;
/// assert_eq!(output_at_level(&[2, 4], 1, 5), 1);
/// assert_eq!(output_at_level(&[2, 4], 2, 5), 2);
/// ```
pub fn output_at_level(fan_outs: &[u32], level: usize, destination: u32) -> u32 {
    let above = outputs_of(&fan_outs[..level - 1]);
    (u64::from(destination) / above % u64::from(fan_outs[level - 1])) as u32
}

/// The number of splitters on a level (from 1): `λ_(l-1)`, but at most the number of outputs.
pub fn nodes_of_level(fan_outs: &[u32], level: usize, width: u32) -> u32 {
    outputs_of(&fan_outs[..level - 1]).min(u64::from(width)) as u32
}

fn outputs_of(fan_outs: &[u32]) -> u64 {
    fan_outs.iter().fold(1, |outputs, fan_out| outputs.saturating_mul(u64::from(*fan_out)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COSTS: SplitterCosts = SplitterCosts { consume_ns: 1.0, process_ns: 0.4, emit_ns: 0.6 };

    fn parts(broadcast: f64) -> Proportions {
        Proportions::broadcast_part(broadcast).unwrap()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn values_computed_by_hand() {
        // Paper IV's own setting, cc = 1 and a = 1, Linear Road's b = 0.5 %.
        assert!(close(COSTS.fsplit(parts(0.005), 64), 1.0 + 0.995 + 0.32));
        assert!(close(COSTS.fsplit(parts(0.0), 64), 2.0));
        assert!(close(COSTS.fsplit(parts(1.0), 64), 65.0));
        assert!(close(COSTS.fsplit(parts(0.3), 1), 2.0));
        assert_eq!(parts(0.005).output_rate(1000.0, 2), 1000.0 * (0.005 + 0.4975));
        // Level 1: 1 + 0.995 + 2 * 0.005. Level 2: half of 0.995 and all of 0.005, to 4 outputs.
        let levels = COSTS.tree_levels(parts(0.005), &[2, 4]);
        assert!(close(levels[0], 2.005) && close(levels[1], 0.5025 + 0.4975 + 4.0 * 0.005));
        assert!(close(COSTS.tree_total(parts(0.005), &[2, 4]), 2.005 + 2.0 * 1.02));
        assert!(close(COSTS.tree_rate_max(parts(0.005), &[2, 4]), 1e9 / 2.005));
        // Everything broadcast: each splitter sees all of it.
        assert!(COSTS.tree_levels(parts(1.0), &[2, 2]).iter().all(|cost| close(*cost, 3.0)));
        // Omitted events cost their consumption and the decision, at the root only.
        let omitting = Proportions::new(0.5, 0.0).unwrap();
        let levels = COSTS.tree_levels(omitting, &[2, 2]);
        assert!(close(levels[0], COSTS.fsplit(omitting, 2)) && close(levels[1], 0.25 * 2.0));
        assert_eq!(COSTS.tree_levels(Proportions::new(0.0, 0.0).unwrap(), &[2, 2])[1], 0.0);
    }

    #[test]
    fn fan_outs_of_the_papers() {
        assert_eq!(exptree(1), [1]);
        assert_eq!(exptree(2), [2]);
        assert_eq!(exptree(8), [2, 4]);
        assert_eq!(exptree(16), [2, 4, 2]);
        assert_eq!(exptree(512), [2, 4, 8, 8]);
        // 2 + floor(199 * 2 * (1 - 1/2)) = 201.
        assert_eq!(maxtree(256, parts(0.005), 1.0), [2, 128]);
        assert_eq!(maxtree(512, parts(0.005), 1.0), [2, 201, 2]);
        // 2 + floor(9 * 2 * 1/2) = 11, then 2 + floor(9 * 2 * 21/22) = 19.
        assert_eq!(maxtree(418, parts(0.1), 1.0), [2, 11, 19]);
        assert_eq!(maxtree(1, parts(0.1), 1.0), [1]);
    }

    /// All fan-outs with this many outputs whose last level cannot be one smaller.
    fn all_trees(width: u32) -> Vec<Vec<u32>> {
        let mut trees = vec![vec![width]];
        for first in 2..width {
            trees.extend(all_trees(width.div_ceil(first)).into_iter().map(|rest| {
                let mut tree = vec![first];
                tree.extend(rest);
                tree
            }));
        }
        trees
    }

    #[test]
    fn no_tree_is_faster_than_maxtree_and_none_as_fast_has_fewer_levels() {
        for width in [2, 3, 5, 8, 12, 16, 24, 31, 48] {
            let trees = all_trees(width);
            for broadcast in [0.001, 0.005, 0.02, 0.1, 0.3, 0.7, 1.0] {
                for consume_ns in [0.0, 0.3, 1.0, 5.0] {
                    let costs = SplitterCosts { consume_ns, ..COSTS };
                    let parts = parts(broadcast);
                    let best = maxtree(width, parts, costs.consume_ratio());
                    let rate = costs.tree_rate_max(parts, &best);
                    for tree in &trees {
                        let other = costs.tree_rate_max(parts, tree);
                        assert!(other <= rate * (1.0 + 1e-9), "{tree:?} is faster than {best:?}");
                        let as_fast = other >= rate * (1.0 - 1e-9);
                        assert!(!as_fast || tree.len() >= best.len(), "{tree:?} is flatter than {best:?}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_tree_of_one_level_is_one_splitter(r in 0.0..1.0f64, part in 0.0..1.0f64, width in 1u32..600) {
            let parts = Proportions::new(r, (1.0 - r) * part).unwrap();
            prop_assert!(close(COSTS.tree_total(parts, &[width]), COSTS.fsplit(parts, width)));
        }

        #[test]
        fn no_level_of_maxtree_costs_more_than_its_root(b in 0.0001..1.0f64, a in 0.0..9.0f64, width in 1u32..2000) {
            let costs = SplitterCosts { consume_ns: a, ..COSTS };
            let levels = costs.tree_levels(parts(b), &maxtree(width, parts(b), a));
            prop_assert!(levels.iter().all(|level| *level <= levels[0] * (1.0 + 1e-9)));
        }

        #[test]
        fn the_path_through_a_tree_ends_at_the_destination(
            fan_outs in prop::collection::vec(1u32..9, 1..6),
            destination in any::<u32>(),
        ) {
            let leaves: u32 = fan_outs.iter().product();
            let destination = destination % leaves;
            let (mut number, mut above) = (0, 1);
            for level in 1..=fan_outs.len() {
                let output = output_at_level(&fan_outs, level, destination);
                prop_assert!(output < fan_outs[level - 1]);
                number += above * output;
                above *= fan_outs[level - 1];
                prop_assert_eq!(number, destination % above);
            }
            prop_assert_eq!(number, destination);
        }

        #[test]
        fn fan_outs_reach_the_width_and_no_more_than_they_must(width in 1u32..3000, b in 0.0..1.0f64) {
            for tree in [exptree(width), maxtree(width, parts(b), 1.0)] {
                let (last, above) = tree.split_last().unwrap();
                let above: u32 = above.iter().product();
                prop_assert!(above * last >= width && above * (last - 1) < width);
            }
        }
    }
}
