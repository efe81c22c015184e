//! The heuristic as the paper describes it, step by step, with none of the application's own arithmetic: slow and
//! obvious. It looks at every minute of the day and at every waiting request.

pub mod rides;

use tidemill_trip_grouping::request::Request;

/// A share: the end of its cycle, its members with the lead first, and what each of them pays.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceShare {
    pub grouped: i64,
    pub members: Vec<i64>,
    pub cost: f64,
}

/// Parameters, as the paper names them.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    pub k: usize,
    pub min_savings: f64,
    pub cycle: i64,
}

/// The procedure `tg` (III 4.1), called at the end of each cycle until nobody waits.
pub fn in_order_of_arrival(requests: &[Request], parameters: Parameters) -> Vec<ReferenceShare> {
    each_cycle(requests, parameters, |q, expiring, end, shares| {
        for r in expiring {
            if !q.iter().any(|other| other.id == r.id) {
                continue; // an earlier share took it
            }
            q.retain(|other| other.id != r.id);
            let (members, cost) = best_share(&r, q, parameters.k);
            if 1.0 - cost >= parameters.min_savings && members.len() > 1 {
                q.retain(|other| !members.contains(&other.id));
                shares.push(ReferenceShare { grouped: end, members, cost });
            } else {
                shares.push(ReferenceShare { grouped: end, members: vec![r.id], cost: 1.0 });
            }
        }
    })
}

/// The heuristic as it is defined (III 3.3): each time the cheapest share of all.
pub fn cheapest_first(requests: &[Request], parameters: Parameters) -> Vec<ReferenceShare> {
    each_cycle(requests, parameters, |q, expiring, end, shares| {
        loop {
            let mut best: Option<(f64, i64, i64, Vec<i64>)> = None;
            for r in expiring.iter().filter(|r| q.iter().any(|other| other.id == r.id)) {
                let others: Vec<Request> = q.iter().filter(|other| other.id != r.id).copied().collect();
                let (members, cost) = best_share(r, &others, parameters.k);
                let found = (cost, r.requested, r.id, members);
                let is_better =
                    best.as_ref().is_none_or(|best| (found.0, found.1, found.2) < (best.0, best.1, best.2));
                if found.3.len() > 1 && is_better {
                    best = Some(found);
                }
            }
            let Some((cost, _, _, members)) = best.filter(|best| 1.0 - best.0 >= parameters.min_savings)
            else {
                break;
            };
            q.retain(|other| !members.contains(&other.id));
            shares.push(ReferenceShare { grouped: end, members, cost });
        }
        for r in expiring {
            if q.iter().any(|other| other.id == r.id) {
                q.retain(|other| other.id != r.id);
                shares.push(ReferenceShare { grouped: end, members: vec![r.id], cost: 1.0 });
            }
        }
    })
}

/// Calls `group` with everybody who waits, those who expire, and the end of the cycle.
fn each_cycle(
    requests: &[Request],
    parameters: Parameters,
    group: impl Fn(&mut Vec<Request>, Vec<Request>, i64, &mut Vec<ReferenceShare>),
) -> Vec<ReferenceShare> {
    let mut coming = requests.to_vec();
    coming.sort_by_key(|request| (request.requested, request.id));
    let (mut q, mut shares, mut end) = (Vec::new(), Vec::new(), 0);
    while !coming.is_empty() || !q.is_empty() {
        end += parameters.cycle;
        let (window, rest) = coming.into_iter().partition(|request| request.requested < end);
        coming = rest;
        let window: Vec<Request> = window;
        q.extend(window);
        // What is not valid any more at the next call.
        let expiring = q.iter().filter(|r: &&Request| r.expires < end + parameters.cycle).copied().collect();
        group(&mut q, expiring, end, &mut shares);
    }
    shares
}

/// The best share of `r` among `q`, with its cost per head; at most `k` people.
fn best_share(r: &Request, q: &[Request], k: usize) -> (Vec<i64>, f64) {
    let length = distance(r.origin.x_m, r.origin.y_m, r.destination.x_m, r.destination.y_m);
    // Nothing can be saved of a trip that goes nowhere.
    if length < 0.001 {
        return (vec![r.id], 1.0);
    }
    let fec = |other: &Request| {
        (distance(r.origin.x_m, r.origin.y_m, other.origin.x_m, other.origin.y_m)
            + distance(r.destination.x_m, r.destination.y_m, other.destination.x_m, other.destination.y_m))
            / length
    };
    let mut others: Vec<(f64, i64, i64)> =
        q.iter().map(|other| (fec(other), other.requested, other.id)).collect();
    others.sort_by(|a, b| a.partial_cmp(b).unwrap());
    others.truncate(k - 1);
    let (mut best, mut sum) = ((vec![r.id], f64::INFINITY), 0.0);
    for count in 1..=others.len() {
        sum += others[count - 1].0;
        let cost = (1.0 + sum) / (count + 1) as f64;
        if cost < best.1 {
            best = (std::iter::once(r.id).chain(others[..count].iter().map(|other| other.2)).collect(), cost);
        }
    }
    best
}

fn distance(x1: f64, y1: f64, x2: f64, y2: f64) -> f64 {
    ((x1 - x2).powi(2) + (y1 - y2).powi(2)).sqrt()
}
