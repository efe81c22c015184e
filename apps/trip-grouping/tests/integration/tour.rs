//! The best tour against all orders of stops.

use proptest::prelude::*;
use tidemill_trip_grouping::criteria::Criteria;
use tidemill_trip_grouping::generator::GeneratorConfig;
use tidemill_trip_grouping::grouping::Grouping;
use tidemill_trip_grouping::request::{Place, Request};
use tidemill_trip_grouping::share::{Member, Share};
use tidemill_trip_grouping::tour::shortest_m;

fn trip(origin: Place, destination: Place) -> Request {
    Request { id: 0, requested: 0, expires: 0, origin, destination }
}

/// Tries each next stop that is possible.
fn tried(requests: &[Request], at: Option<Place>, progress: &mut Vec<u8>) -> f64 {
    if progress.iter().all(|state| *state == 2) {
        return 0.0;
    }
    let mut best = f64::INFINITY;
    for index in 0..requests.len() {
        let stop = match progress[index] {
            0 => requests[index].origin,
            1 => requests[index].destination,
            _ => continue,
        };
        let leg = at.map_or(0.0, |at| ((at.x_m - stop.x_m).powi(2) + (at.y_m - stop.y_m).powi(2)).sqrt());
        progress[index] += 1;
        best = best.min(leg + tried(requests, Some(stop), progress));
        progress[index] -= 1;
    }
    best
}

proptest! {
    #[test]
    fn the_shortest_tour_is_that_of_all_orders(
        places in prop::collection::vec((0..100i32, 0..100i32, 0..100i32, 0..100i32), 1..=4)
    ) {
        let place = |x: i32, y: i32| Place { x_m: f64::from(x), y_m: f64::from(y) };
        let requests: Vec<Request> = places
            .into_iter()
            .map(|(a, b, c, d)| trip(place(a, b), place(c, d)))
            .collect();
        let members = requests.iter().map(|request| Member { request: *request, extra_cost: 0.0 }).collect();
        let found = shortest_m(&Share { grouped: 0, members, amortized_cost: 1.0 });
        let expected = tried(&requests, None, &mut vec![0; requests.len()]);
        prop_assert!((found - expected).abs() < 1e-6, "{} {}", found, expected);
    }
}

/// The paper takes the extra cost for an upper bound, because the lead can pick the other up and bring it home on the way
/// (III 3.3). That holds if the other's trip is no longer than the lead's. If it is longer, the ride can be, too.
#[test]
fn reported_lengths_are_upper_bounds_for_shorter_trips_only() {
    let day = GeneratorConfig { people: 10_000, ..GeneratorConfig::default() }.day().unwrap();
    let (mut grouping, mut shares) = (Grouping::new(Criteria::default()), Vec::new());
    day.requests.iter().for_each(|request| grouping.add(*request));
    grouping.advance(i64::MAX, &mut shares);
    let (mut pairs, mut exceeded) = (0, 0);
    for share in shares.iter().filter(|share| share.members.len() > 1) {
        let (shortest_m, reported_m) = (shortest_m(share), share.length_m());
        let longest_m = share.members.iter().map(|member| member.request.length_m()).fold(0.0, f64::max);
        assert!(shortest_m >= longest_m - 1e-6);
        if share.members.len() == 2 && longest_m == share.lead().length_m() {
            pairs += 1;
            assert!(shortest_m <= reported_m + 1e-6, "{shortest_m} {reported_m}");
        }
        exceeded += usize::from(shortest_m > reported_m + 1e-6);
    }
    assert!(pairs > 100, "{pairs}");
    assert!(exceeded > 0, "some rides are longer than reported");
}
