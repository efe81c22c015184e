//! As the paper defines the heuristic (III 3.3, steps 5 to 8): of the best shares of all expiring requests, the cheapest
//! is made first, until none saves enough.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::criteria::Criteria;
use crate::extra_cost::best_prefix;
use crate::grouping::arrival::share;
use crate::grouping::nearest::Nearest;
use crate::grouping::queue::Queue;
use crate::share::Share;

/// The best share of an expiring request, when it was last looked at. Since then requests can only have been taken, so
/// its cost cannot have fallen.
struct Candidate {
    cost: f64,
    /// Its place in the order of arrival.
    rank: usize,
    lead: usize,
    count: usize,
    nearest: Nearest,
}

/// Gives expiring requests shares, and sends those alone for which there is no share that saves enough.
pub fn group(queue: &mut Queue, expiring: &[usize], end: i64, criteria: &Criteria, shares: &mut Vec<Share>) {
    let candidate = |queue: &Queue, rank: usize, lead: usize| {
        let nearest = Nearest::find(queue, &queue.requests()[lead], Some(lead), criteria.max_share - 1);
        let best = best_prefix(nearest.extra_costs()).filter(|(_, cost)| 1.0 - cost >= criteria.min_savings);
        best.map(|(count, cost)| Reverse(Candidate { cost, rank, lead, count, nearest }))
    };
    let leads = expiring.iter().copied().enumerate();
    let mut heap: BinaryHeap<_> = leads.filter_map(|(rank, lead)| candidate(queue, rank, lead)).collect();
    while let Some(Reverse(cheapest)) = heap.pop() {
        let Candidate { cost, rank, lead, count, nearest } = cheapest;
        if queue.is_taken(lead) {
            continue;
        }
        if nearest.indices()[..count].iter().any(|index| queue.is_taken(*index)) {
            heap.extend(candidate(queue, rank, lead));
            continue;
        }
        shares.push(share(queue, lead, &nearest, count, cost, end));
    }
    for lead in expiring.iter().copied() {
        if !queue.is_taken(lead) {
            shares.push(Share::alone(end, queue.take(lead)));
        }
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cost.total_cmp(&other.cost).then(self.rank.cmp(&other.rank))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}
