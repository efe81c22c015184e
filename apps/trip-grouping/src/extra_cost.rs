//! What it costs to take somebody along, and what each member of a share pays (III 3.3, steps 2 to 4).

use crate::request::Request;

/// A trip below this length has no cost that could be shared, so it never gets its own share.
pub const LENGTH_MIN_M: f64 = 1e-3;

/// The fractional extra cost (FEC): the detour of `lead` for the places of `other`, relative to the length of the
/// lead's own trip.
///
/// If the other's trip is no longer than the lead's, it is an upper bound, because the lead can begin and end the ride. If
/// it is longer, the ride may cost more.
///
/// The length is that of the lead's trip, at least [`LENGTH_MIN_M`].
#[inline]
pub fn extra_cost(lead: &Request, length_m: f64, other: &Request) -> f64 {
    let detour_m = lead.origin.distance_m(other.origin) + lead.destination.distance_m(other.destination);
    detour_m / length_m
}

/// The amortized cost (AC): what each member pays, relative to the lead's own trip, if the lead takes along others with
/// these extra costs. Extra costs are taken to be additive.
///
/// ```
/// use tidemill_trip_grouping::extra_cost::amortized_cost;
/// assert_eq!(amortized_cost(&[]), 1.0);
/// assert_eq!(amortized_cost(&[0.2, 0.3]), 0.5);
/// ```
pub fn amortized_cost(extra_costs: &[f64]) -> f64 {
    (1.0 + extra_costs.iter().sum::<f64>()) / (extra_costs.len() + 1) as f64
}

/// How many of the others to take along, at least one, and what each member then pays: the prefix with the lowest
/// amortized cost, the shorter one of two equal ones. `None` if there are no others. The costs are ascending.
///
/// ```
/// use tidemill_trip_grouping::extra_cost::best_prefix;
/// assert_eq!(best_prefix(&[0.25, 0.25, 0.875]), Some((2, 0.5)));
/// assert_eq!(best_prefix(&[]), None);
/// ```
pub fn best_prefix(extra_costs: &[f64]) -> Option<(usize, f64)> {
    let prefixes = (1..=extra_costs.len()).map(|count| (count, amortized_cost(&extra_costs[..count])));
    // Of equal ones, `min_by` takes the first.
    prefixes.min_by(|a, b| a.1.total_cmp(&b.1))
}
