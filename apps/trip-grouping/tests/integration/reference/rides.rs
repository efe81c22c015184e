//! Ride sharing as the paper describes it (III 3.6), step by step, with none of the application's own arithmetic: slow and
//! obvious. It looks at every cycle and at everybody.

use tidemill_trip_grouping::request::{Place, Request};
use tidemill_trip_grouping::ride_sharing::Offer;

/// The members of each share and the end of its cycle; who was not served, and when.
pub type Outcome = (Vec<(i64, Vec<i64>)>, Vec<(i64, i64)>);

/// The length of a cycle.
pub const CYCLE: i64 = 60;

/// Everybody leaves or gives up in some cycle: all cycles are looked at, until nobody is left.
pub fn reference(requests: &[Request], offers: &[Offer]) -> Outcome {
    let (mut shares, mut unserved) = (Vec::new(), Vec::new());
    let (mut gone, mut end): (Vec<i64>, i64) = (Vec::new(), 0);
    let mut offers = offers.to_vec();
    offers.sort_by_key(|offer| (offer.trip.requested, offer.trip.id));
    let mut requests = requests.to_vec();
    requests.sort_by_key(|request| (request.requested, request.id));
    while gone.len() < requests.len() + offers.len() {
        end += CYCLE;
        let here = |request: &Request, gone: &[i64]| request.requested < end && !gone.contains(&request.id);
        for offer in &offers {
            if !here(&offer.trip, &gone) {
                continue;
            }
            // R_q: requests, and owners who leave their cars.
            let leaving = offers.iter().filter(|offer| offer.leaves_car).map(|offer| offer.trip);
            let mut q: Vec<(f64, i64, i64)> = requests
                .iter()
                .copied()
                .chain(leaving)
                .filter(|other| here(other, &gone) && other.id != offer.trip.id)
                .map(|other| (fec(&offer.trip, &other), other.requested, other.id))
                .collect();
            q.sort_by(|a, b| a.partial_cmp(b).unwrap());
            q.truncate(offer.seats);
            let (mut best, mut sum) = (None, 0.0);
            for count in 1..=q.len() {
                sum += q[count - 1].0;
                let cost = (1.0 + sum) / (count + 1) as f64;
                let is_better = best.is_none_or(|(_, least)| cost < least);
                if sum <= offer.extra_cost_max && cost <= 1.0 && is_better {
                    best = Some((count, cost));
                }
            }
            if let Some((count, _)) = best {
                let members: Vec<i64> =
                    [offer.trip.id].into_iter().chain(q[..count].iter().map(|other| other.2)).collect();
                gone.extend(&members);
                shares.push((end, members));
            }
        }
        for offer in &offers {
            if here(&offer.trip, &gone) && offer.trip.expires < end + CYCLE {
                gone.push(offer.trip.id);
                shares.push((end, vec![offer.trip.id]));
            }
        }
        for request in &requests {
            if here(request, &gone) && request.expires < end + CYCLE {
                gone.push(request.id);
                unserved.push((end, request.id));
            }
        }
    }
    (shares, unserved)
}

fn fec(lead: &Request, other: &Request) -> f64 {
    let distance = |a: Place, b: Place| ((a.x_m - b.x_m).powi(2) + (a.y_m - b.y_m).powi(2)).sqrt();
    let length = distance(lead.origin, lead.destination);
    // Nobody goes along on a trip that goes nowhere.
    if length < 0.001 {
        return f64::INFINITY;
    }
    (distance(lead.origin, other.origin) + distance(lead.destination, other.destination)) / length
}
