//! The shortest ride that serves a share: everybody is picked up before being dropped off.

use crate::criteria::SHARE_MAX;
use crate::request::Place;
use crate::share::Share;

/// Nobody yet, on board, or delivered.
const STATES: usize = 3;

/// The length of the best tour of a share (`m(s)`, III 3.1), over all orders of its stops.
///
/// It is found by what is known about the passengers, each in one of three states, and the last stop: a tour to there is
/// the best one to a stop before, and one leg more.
///
/// ```
/// use tidemill_trip_grouping::share::Share;
/// use tidemill_trip_grouping::text::parse_request;
/// use tidemill_trip_grouping::tour::shortest_m;
/// let request = parse_request(b"1,0,600,0,0,3000,4000")?;
/// assert_eq!(shortest_m(&Share::alone(600, request)), 5000.0);
/// # Ok::<(), tidemill_trip_grouping::text::LineError>(())
/// ```
pub fn shortest_m(share: &Share) -> f64 {
    let members = &share.members[..share.members.len().min(SHARE_MAX)];
    // Stop 2 i is where passenger i gets on, stop 2 i + 1 where they get off.
    let stops: Vec<Place> =
        members.iter().flat_map(|member| [member.request.origin, member.request.destination]).collect();
    let passengers = members.len();
    let all = STATES.pow(passengers as u32);
    let mut lengths_m = vec![f64::INFINITY; all * stops.len()];
    for passenger in 0..passengers {
        lengths_m[STATES.pow(passenger as u32) * stops.len() + 2 * passenger] = 0.0;
    }
    // A leg only ever leads to a larger number.
    for state in 1..all {
        for last in 0..stops.len() {
            let length_m = lengths_m[state * stops.len() + last];
            if length_m.is_infinite() {
                continue;
            }
            for passenger in 0..passengers {
                let weight = STATES.pow(passenger as u32);
                let progress = state / weight % STATES;
                if progress == 2 {
                    continue;
                }
                let next = 2 * passenger + progress;
                let place = (state + weight) * stops.len() + next;
                let longer_m = length_m + stops[last].distance_m(stops[next]);
                lengths_m[place] = lengths_m[place].min(longer_m);
            }
        }
    }
    lengths_m[(all - 1) * stops.len()..].iter().copied().fold(f64::INFINITY, f64::min)
}
