//! Who of a city's people has a car, and takes others along.

use super::random::Random;
use super::{Day, GeneratorConfig, GeneratorError};
use crate::request::Request;
use crate::ride_sharing::Offer;

/// The part of the drivers who leave their cars if somebody else takes them along.
const LEAVES_CAR: f64 = 0.3;
/// Drivers accept detours from this part of their own trip on ...
const EXTRA_COST_MIN: f64 = 0.1;
/// ... in steps of this part ...
const EXTRA_COST_STEP: f64 = 0.05;
/// ... up to this many steps more.
const EXTRA_COST_STEPS: f64 = 8.0;
/// The most seats for others.
const SEATS_MAX: f64 = 4.0;
/// Set apart the random numbers for drivers from those of the trips.
const DRIVERS: u64 = 0x7469_6465_6d69_6c6c;

/// A workday on which some people have cars.
#[derive(Clone, Debug, PartialEq)]
pub struct DayWithOffers {
    /// The number of all trips.
    pub trips: u64,
    /// Requests of people without cars, in the order of their times.
    pub requests: Vec<Request>,
    /// Offers of people with cars, in the order of their times. Their ids are those that their requests would have.
    pub offers: Vec<Offer>,
}

impl GeneratorConfig {
    /// Makes the day. For this percentage of the trips that [`day`](Self::day) requests, somebody has a car and offers a
    /// ride instead. With a larger percentage the same people offer rides, and others.
    ///
    /// ```
    /// use tidemill_trip_grouping::generator::GeneratorConfig;
    /// let city = GeneratorConfig { people: 1000, ..GeneratorConfig::default() };
    /// let day = city.day_with_offers(25)?;
    /// assert_eq!(day.requests.len() + day.offers.len(), city.day()?.requests.len());
    /// assert!(day.offers.len() > 50);
    /// # Ok::<(), tidemill_trip_grouping::generator::GeneratorError>(())
    /// ```
    ///
    /// # Errors
    /// As [`check`](Self::check), and if there are more than 100 percent.
    pub fn day_with_offers(&self, drivers_percent: u32) -> Result<DayWithOffers, GeneratorError> {
        if drivers_percent > 100 {
            return Err(GeneratorError::Drivers { given: drivers_percent });
        }
        let Day { trips, requests: all } = self.day()?;
        let mut random = Random::new(self.seed ^ DRIVERS);
        let (mut requests, mut offers) = (Vec::new(), Vec::new());
        for trip in all {
            // As many numbers for each trip, so that who has a car does not depend on others.
            let (drives, offer) = (random.fraction(), offer(&mut random, trip));
            if drives * 100.0 < f64::from(drivers_percent) { offers.push(offer) } else { requests.push(trip) }
        }
        Ok(DayWithOffers { trips, requests, offers })
    }
}

fn offer(random: &mut Random, trip: Request) -> Offer {
    let leaves_car = random.chance(LEAVES_CAR);
    let steps = random.between(0.0, EXTRA_COST_STEPS + 1.0).floor();
    let hundredths = (100.0 * (EXTRA_COST_MIN + steps * EXTRA_COST_STEP)).round();
    let seats = random.between(1.0, SEATS_MAX + 1.0) as usize;
    Offer { trip, leaves_car, extra_cost_max: hundredths / 100.0, seats }
}
