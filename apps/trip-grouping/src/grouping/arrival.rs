//! As the paper's procedure `tg` does it (III 4.1): expiring requests choose one after the other, in the order of
//! arrival.

use crate::criteria::Criteria;
use crate::extra_cost::best_prefix;
use crate::grouping::nearest::Nearest;
use crate::grouping::queue::Queue;
use crate::share::{Member, Share};

/// Gives each expiring request a share, or sends it alone.
pub fn group(queue: &mut Queue, expiring: &[usize], end: i64, criteria: &Criteria, shares: &mut Vec<Share>) {
    for lead in expiring.iter().copied() {
        // An earlier one may have taken it along.
        if queue.is_taken(lead) {
            continue;
        }
        let nearest = Nearest::find(queue, &queue.requests()[lead], Some(lead), criteria.max_share - 1);
        let best = best_prefix(nearest.extra_costs());
        shares.push(match best.filter(|(_, cost)| 1.0 - cost >= criteria.min_savings) {
            Some((count, cost)) => share(queue, lead, &nearest, count, cost, end),
            None => Share::alone(end, queue.take(lead)),
        });
    }
}

/// Takes the lead and the first `count` of the nearest.
pub fn share(queue: &mut Queue, lead: usize, nearest: &Nearest, count: usize, cost: f64, end: i64) -> Share {
    let mut members = Vec::with_capacity(count + 1);
    members.push(Member { request: queue.take(lead), extra_cost: 0.0 });
    let others = nearest.indices().iter().zip(nearest.extra_costs()).take(count);
    members.extend(
        others.map(|(index, extra_cost)| Member { request: queue.take(*index), extra_cost: *extra_cost }),
    );
    Share { grouped: end, members, amortized_cost: cost }
}
