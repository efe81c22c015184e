//! Traffic for the benchmark: position reports, queries and the history for them.
//!
//! The cars follow the simple model of the specification's section 13, whose numbers are constants in the module that
//! uses them: the rate curve in `rate`, speeds in `road` and `driving`, trips in `demand`, accidents in `incidents`,
//! queries in `queries`. The traffic has the properties of valid data (section 2) and about the proportions measured in
//! section 13.
//!
//! A car is touched only when it reports. Cars are kept in 30 buckets, by the second modulo 30 of their entry, and one
//! bucket is traversed per second. So the work is proportional to the reports, memory is read in order, and a car that
//! leaves is replaced by the last of its bucket. Nothing depends on time, platform or the order of a hash table: the
//! same configuration gives the same events.

mod config;
mod demand;
mod driving;
mod incidents;
mod queries;
mod random;
mod rate;
mod road;

pub use config::{
    GeneratorConfig, GeneratorError, MINUTES_MAX, PEAK_REPORTS_PER_SECOND, PEAK_REPORTS_PER_SECOND_MAX,
};

use crate::event::{Event, HistoryRow, VID_MAX};
use demand::Demand;
use driving::{Car, RandomBits};
use incidents::Incidents;
use queries::Queries;
use random::Random;
use rate::RateCurve;
use road::Road;

/// Seconds between two reports of a car.
const REPORT_INTERVAL_S: u32 = 30;
/// The share of the missing cars that enter within a second: it spreads the first cars over the reporting interval.
const ENTERING_PART: f64 = 1.0 / 8.0;

/// Makes the input of a run, second by second.
///
/// ```
/// use tidemill_linear_road::generator::{Generator, GeneratorConfig};
///
/// let config = GeneratorConfig { minutes: 2, seed: 7, ..GeneratorConfig::default() };
/// let mut generator = Generator::new(config)?;
/// let (mut events, mut total) = (Vec::new(), 0);
/// while generator.next_second(&mut events) {
///     total += events.len();
///     events.clear();
/// }
/// assert!(total > 50_000);
/// # Ok::<(), tidemill_linear_road::generator::GeneratorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    config: GeneratorConfig,
    curve: RateCurve,
    road: Road,
    demand: Demand,
    incidents: Incidents,
    queries: Queries,
    random: Random,
    /// The cars on the road by the second, modulo 30, of their reports.
    buckets: Vec<Vec<Car>>,
    next_vid: u32,
    next_s: u32,
}

impl Generator {
    /// An empty road before second 0.
    ///
    /// # Errors
    /// As [`GeneratorConfig::check`].
    pub fn new(config: GeneratorConfig) -> Result<Self, GeneratorError> {
        config.check()?;
        let random = |purpose| Random::new(config.seed, purpose);
        Ok(Generator {
            config,
            curve: RateCurve::new(&config),
            road: Road::new(config.expressways, &mut random(1)),
            demand: Demand::new(config.expressways, random(2)),
            incidents: Incidents::new(config.expressways, random(3)),
            queries: Queries::new(config.expressways, random(4)),
            random: random(5),
            buckets: vec![Vec::new(); REPORT_INTERVAL_S as usize],
            next_vid: 0,
            next_s: 0,
        })
    }

    /// Appends all events of the next second; returns false and appends nothing once the run is over.
    ///
    /// The order within the second is fixed but arbitrary; a query directly follows its car's report.
    pub fn next_second(&mut self, events: &mut Vec<Event>) -> bool {
        let time_s = self.next_s;
        if time_s >= self.config.duration_s() {
            return false;
        }
        self.incidents.advance(time_s, &mut self.road);
        self.drive(time_s, events);
        self.enter_returning(time_s, events);
        self.enter_new(time_s, events);
        self.next_s += 1;
        true
    }

    /// The history rows that answer the type 3 queries made so far: one per vehicle, day and expressway
    /// asked for, in the order of the first query for it.
    pub fn history(&self) -> &[HistoryRow] {
        self.queries.history()
    }

    /// The number of vehicle ids assigned so far: all ids are below it.
    pub fn vehicle_count(&self) -> u32 {
        self.next_vid
    }

    /// The number of queries made so far: all query ids are below it.
    pub fn query_count(&self) -> u64 {
        self.queries.count()
    }

    /// Moves the cars that report in this second, and removes those that leave.
    fn drive(&mut self, time_s: u32, events: &mut Vec<Event>) {
        let phase = (time_s % REPORT_INTERVAL_S) as usize;
        let mut bucket = std::mem::take(&mut self.buckets[phase]);
        let mut index = 0;
        while index < bucket.len() {
            let bits = RandomBits(self.random.next());
            let car = &mut bucket[index];
            let speed_mph = car.advance(time_s, bits, &mut self.road, &mut self.incidents);
            events.push(Event::Report(car.report(time_s, speed_mph)));
            if bits.asks() {
                events.push(self.queries.ask(time_s, car.vid));
            }
            if car.exits() {
                self.road.leave(car.xway, car.dir, car.seg);
                self.demand.left(car.vid, time_s);
                bucket.swap_remove(index);
            } else {
                index += 1;
            }
        }
        self.buckets[phase] = bucket;
    }

    /// Cars whose pause is over enter again, each on any expressway.
    fn enter_returning(&mut self, time_s: u32, events: &mut Vec<Event>) {
        let returning = self.demand.take_returns(time_s);
        for &vid in &returning {
            let xway = self.demand.expressway();
            self.enter(vid, xway, time_s, events);
        }
        self.demand.recycle(returning, time_s);
    }

    /// New cars enter where fewer are on the road than the rate curve requires.
    fn enter_new(&mut self, time_s: u32, events: &mut Vec<Event>) {
        let wanted = self.curve.cars(time_s);
        for xway in 0..self.config.expressways {
            let missing = wanted - f64::from(self.road.cars(xway));
            for _ in 0..self.demand.whole(missing * ENTERING_PART) {
                // `GeneratorConfig::check` leaves enough room that this does not happen.
                if self.next_vid > VID_MAX {
                    return;
                }
                let vid = self.next_vid;
                self.next_vid += 1;
                self.enter(vid, xway, time_s, events);
            }
        }
    }

    fn enter(&mut self, vid: u32, xway: u16, time_s: u32, events: &mut Vec<Event>) {
        let trip = self.demand.trip(&self.road, xway);
        let car = Car::enter(vid, xway, trip.dir, trip.entry_seg, trip.exit_seg, &mut self.random);
        self.road.enter(xway, trip.dir, trip.entry_seg);
        let bits = RandomBits(self.random.next());
        events.push(Event::Report(car.report(time_s, Car::entry_speed_mph(bits))));
        if bits.asks() {
            events.push(self.queries.ask(time_s, vid));
        }
        self.buckets[(time_s % REPORT_INTERVAL_S) as usize].push(car);
    }
}
