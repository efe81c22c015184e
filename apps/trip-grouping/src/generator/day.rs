//! What people do on a workday, and when.

use super::random::Random;
use super::{Day, GeneratorConfig, city};
use crate::request::{Place, Request};

/// The part of the people who work far from home, anywhere in the city.
const WORKS_FAR: f64 = 0.2;
/// The part who work near their homes.
const WORKS_NEAR: f64 = 0.4;
/// The part who go to a mall when others work.
const SHOPS: f64 = 0.053;
/// The part who visit somebody anywhere in the city.
const VISITS: f64 = 0.006;
/// The part who go out near their homes, on each of two occasions.
const ERRANDS: f64 = 0.315;

const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 24.0 * HOUR_S;

/// Collects the trips of the day.
struct Trips {
    day: Day,
    wait_s: i64,
    length_min_m: f64,
}

/// The day of everybody, in the order of time.
pub(super) fn make(config: &GeneratorConfig) -> Day {
    let mut random = Random::new(config.seed);
    let day = Day { trips: 0, requests: Vec::new() };
    let mut trips = Trips { day, wait_s: config.wait_s.into(), length_min_m: f64::from(config.length_min_m) };
    for _ in 0..config.people {
        live(&mut random, &mut trips);
    }
    let mut day = trips.day;
    day.requests.sort_by_key(|request| request.requested);
    for (id, request) in (0..).zip(&mut day.requests) {
        request.id = id;
    }
    day
}

/// The day of one person.
fn live(random: &mut Random, trips: &mut Trips) {
    let home = city::home(random);
    let occupation = random.fraction();
    if occupation < WORKS_FAR + WORKS_NEAR {
        let is_far = occupation < WORKS_FAR;
        let work = if is_far { city::workplace(random, home) } else { city::near(random, home) };
        trips.add(random.normal(8.0 * HOUR_S, 1.2 * HOUR_S), home, work);
        trips.add(random.normal(16.5 * HOUR_S, 1.3 * HOUR_S), work, home);
    } else if occupation < WORKS_FAR + WORKS_NEAR + SHOPS {
        let leaves_s = random.normal(12.5 * HOUR_S, 1.0 * HOUR_S);
        trips.there_and_back(random, leaves_s, home, |random| city::mall(random, home));
    }
    if random.chance(VISITS) {
        let leaves_s = random.between(9.0 * HOUR_S, 20.0 * HOUR_S);
        trips.there_and_back(random, leaves_s, home, city::home);
    }
    for _ in 0..2 {
        if random.chance(ERRANDS) {
            let leaves_s = random.between(7.0 * HOUR_S, 20.0 * HOUR_S);
            trips.there_and_back(random, leaves_s, home, |random| city::near(random, home));
        }
    }
}

impl Trips {
    fn there_and_back(
        &mut self,
        random: &mut Random,
        leaves_s: f64,
        home: Place,
        choose: impl Fn(&mut Random) -> Place,
    ) {
        let place = choose(random);
        self.add(leaves_s, home, place);
        self.add(leaves_s + random.between(0.7 * HOUR_S, 2.0 * HOUR_S), place, home);
    }

    /// Adds a trip, and requests it if it is long enough.
    fn add(&mut self, leaves_s: f64, origin: Place, destination: Place) {
        self.day.trips += 1;
        if origin.distance_m(destination) >= self.length_min_m {
            let requested = leaves_s.clamp(0.0, DAY_S - 1.0) as i64;
            let expires = requested + self.wait_s;
            // They are numbered when all are known.
            self.day.requests.push(Request { id: 0, requested, expires, origin, destination });
        }
    }
}
