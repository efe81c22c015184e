//! The requests that cost a lead least to take along.
//!
//! A detour is at least as long as the difference of the origins from west to east. So the search goes out from the
//! lead's origin to both sides, and ends where that difference alone is longer than the detours that were found already.
//! The result is the same as that of a scan of the whole queue.

use crate::criteria::SHARE_MAX;
use crate::extra_cost::{LENGTH_MIN_M, extra_cost};
use crate::grouping::queue::Queue;
use crate::request::Request;

/// The most others that a lead takes along.
const OTHERS_MAX: usize = SHARE_MAX - 1;

/// Bounds are computed with rounding errors, so the search goes this much further.
const SLACK: f64 = 1e-9;

/// Others for a lead, in ascending order of (extra cost, arrival).
#[derive(Clone, Copy, Debug)]
pub struct Nearest {
    indices: [usize; OTHERS_MAX],
    extra_costs: [f64; OTHERS_MAX],
    count: usize,
    wanted: usize,
}

impl Nearest {
    /// Finds the `wanted` requests of lowest extra cost that are not taken. Those above 1 are left out, because they
    /// cost more than they save: an amortized cost is the mean of 1 and the extra costs.
    ///
    /// The lead may be in the queue itself, at the index `own`.
    pub fn find(queue: &Queue, lead: &Request, own: Option<usize>, wanted: usize) -> Nearest {
        let wanted = wanted.min(OTHERS_MAX);
        let mut nearest =
            Nearest { indices: [0; OTHERS_MAX], extra_costs: [0.0; OTHERS_MAX], count: 0, wanted };
        let requests = queue.requests();
        let length_m = lead.length_m();
        if length_m < LENGTH_MIN_M {
            return nearest;
        }
        let mut bound_m = length_m * (1.0 + SLACK) + SLACK;
        let x_m = lead.origin.x_m;
        // Those that the search comes to next: `west` is one past it.
        let mut west = requests.partition_point(|request| request.origin.x_m < x_m);
        let mut east = west;
        loop {
            let to_west_m = if west > 0 { x_m - requests[west - 1].origin.x_m } else { f64::INFINITY };
            let to_east_m = requests.get(east).map_or(f64::INFINITY, |request| request.origin.x_m - x_m);
            if to_west_m.min(to_east_m) > bound_m {
                return nearest;
            }
            let next = if to_west_m <= to_east_m {
                west -= 1;
                west
            } else {
                east += 1;
                east - 1
            };
            if queue.is_taken(next) || own == Some(next) {
                continue;
            }
            let cost = extra_cost(lead, length_m, &requests[next]);
            if cost <= 1.0 + SLACK {
                nearest.insert(queue, next, cost);
            }
            if nearest.count == wanted {
                bound_m = nearest.extra_costs[wanted - 1] * length_m * (1.0 + SLACK) + SLACK;
            }
        }
    }

    /// The indices of the requests in the queue.
    pub fn indices(&self) -> &[usize] {
        &self.indices[..self.count]
    }

    /// Their extra costs, ascending.
    pub fn extra_costs(&self) -> &[f64] {
        &self.extra_costs[..self.count]
    }

    fn insert(&mut self, queue: &Queue, index: usize, cost: f64) {
        let requests = queue.requests();
        let is_before = |at: usize| {
            let order = cost.total_cmp(&self.extra_costs[at]);
            order.then_with(|| requests[index].by_arrival(&requests[self.indices[at]])).is_lt()
        };
        let place = (0..self.count).find(|at| is_before(*at)).unwrap_or(self.count);
        if place == self.wanted {
            return;
        }
        self.count = self.wanted.min(self.count + 1);
        self.indices[place..self.count].rotate_right(1);
        self.extra_costs[place..self.count].rotate_right(1);
        self.indices[place] = index;
        self.extra_costs[place] = cost;
    }
}
