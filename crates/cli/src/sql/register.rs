//! What the command knows by name beyond the language itself: the traffic of Linear Road, requests for trips and how
//! they are grouped.

use std::sync::Arc;

use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Cause, EventTime};
use tidemill_linear_road::generator::{GeneratorConfig, MINUTES_MAX, PEAK_REPORTS_PER_SECOND_MAX};
use tidemill_linear_road::source::{LinearRoadReports, linear_road_reports_schema};
use tidemill_sql::{
    DeclaredValues, Generator, OptionDefault, OptionDefinition, OptionKind, Planner, Projected,
    SourceDefinition,
};
use tidemill_trip_grouping::generator::{self, PEOPLE_MAX};
use tidemill_trip_grouping::source::{TripOffers, TripRequests, trip_offers_schema, trip_requests_schema};

use super::group_trips::GroupTripsFunction;
use super::share_rides::ShareRidesFunction;

const NAME: &str = "linear_road_reports";
/// The event time's column.
const TIME: &str = "event_time";

/// Registers all of it.
pub(crate) fn register(planner: &mut Planner) {
    let reports = Generator::new("the traffic of Linear Road", REPORTS_ARGUMENTS, linear_road_reports);
    let requests = Generator::new("requests for trips of a city's people", REQUESTS_ARGUMENTS, trip_requests);
    planner.register_generator(NAME, reports);
    let offers =
        Generator::new("offers of rides in the cars of a city's people", OFFERS_ARGUMENTS, trip_offers);
    planner.register_generator(REQUESTS, requests);
    planner.register_generator(OFFERS, offers);
    planner.register_operator("group_trips", Arc::new(GroupTripsFunction));
    planner.register_operator("share_rides", Arc::new(ShareRidesFunction));
}

const REQUESTS: &str = "trip_requests";
const OFFERS: &str = "trip_offers";

const fn integer(
    name: &'static str,
    least: i64,
    most: i64,
    default: &'static str,
    doc: &'static str,
) -> OptionDefinition {
    OptionDefinition::new(name, OptionKind::Integer { least, most }, OptionDefault::Value(default), doc)
}

const REQUESTS_ARGUMENTS: &[OptionDefinition] = &[
    integer("people", 1, PEOPLE_MAX as i64, "600000", "how many people make a request on the day"),
    integer("seed", 0, i64::MAX, "7", "another seed makes other requests"),
    integer("drivers", 0, 100, "0", "percent of the trips that trip_offers has instead"),
];

const OFFERS_ARGUMENTS: &[OptionDefinition] = &[
    integer(
        "people",
        1,
        PEOPLE_MAX as i64,
        "600000",
        "how many people make a request or an offer on the day",
    ),
    integer("seed", 0, i64::MAX, "7", "another seed makes other offers"),
    integer("drivers", 0, 100, "20", "percent of the trips that are offered"),
];

/// A number as it was declared, so that it fits.
fn number<T: TryFrom<i64>>(arguments: &DeclaredValues, name: &str, default: T) -> T {
    arguments.integer(name).and_then(|value| value.try_into().ok()).unwrap_or(default)
}

/// `trip_requests(people => 600000, seed => 7, drivers => 0)`
fn trip_requests(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let (config, drivers) = (city(arguments), number(arguments, "drivers", 0));
    let open = move |columns: Option<&[usize]>| {
        Projected::open(TripRequests::with_drivers(config, drivers)?, columns)
    };
    Ok(SourceDefinition {
        event_time: requested_in(&trip_requests_schema())?,
        ordered: true,
        is_finite: true,
        is_repeatable: true,
        ..SourceDefinition::new(REQUESTS, trip_requests_schema(), Arc::new(open))
    })
}

/// `trip_offers(people => 600000, seed => 7, drivers => 20)`
fn trip_offers(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let (config, drivers) = (city(arguments), number(arguments, "drivers", 20));
    let open = move |columns: Option<&[usize]>| Projected::open(TripOffers::new(config, drivers)?, columns);
    Ok(SourceDefinition {
        event_time: requested_in(&trip_offers_schema())?,
        ordered: true,
        is_finite: true,
        is_repeatable: true,
        ..SourceDefinition::new(OFFERS, trip_offers_schema(), Arc::new(open))
    })
}

fn city(arguments: &DeclaredValues) -> generator::GeneratorConfig {
    let defaults = generator::GeneratorConfig::default();
    generator::GeneratorConfig {
        people: number(arguments, "people", defaults.people),
        seed: number(arguments, "seed", defaults.seed),
        ..defaults
    }
}

fn requested_in(schema: &SchemaRef) -> Result<Option<EventTime>, Cause> {
    let column =
        schema.index_of("requested").map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
    Ok(Some(EventTime { column, delay_ns: 0 }))
}

const REPORTS_ARGUMENTS: &[OptionDefinition] = &[
    integer("expressways", 1, u16::MAX as i64, "1", "how many expressways report"),
    integer("minutes", 1, MINUTES_MAX as i64, "180", "how long they do"),
    integer("seed", 0, i64::MAX, "1", "another seed makes other traffic"),
    integer(
        "peak",
        1,
        PEAK_REPORTS_PER_SECOND_MAX as i64,
        "1700",
        "reports per second and expressway at the busiest time",
    ),
];

/// `linear_road_reports(expressways => 1, minutes => 30, seed => 1, peak => 1700)`
fn linear_road_reports(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let defaults = GeneratorConfig::default();
    let config = GeneratorConfig {
        expressways: number(arguments, "expressways", defaults.expressways),
        minutes: number(arguments, "minutes", defaults.minutes),
        seed: number(arguments, "seed", defaults.seed),
        peak_reports_per_second: number(arguments, "peak", defaults.peak_reports_per_second),
        curve_minutes: None,
    };
    LinearRoadReports::new(config)?;
    let schema = linear_road_reports_schema();
    let column = schema.index_of(TIME).map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
    let open = move |columns: Option<&[usize]>| Projected::open(LinearRoadReports::new(config)?, columns);
    Ok(SourceDefinition {
        event_time: Some(EventTime { column, delay_ns: 0 }),
        ordered: true,
        is_finite: true,
        is_repeatable: true,
        ..SourceDefinition::new(NAME, schema, Arc::new(open))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_defaults_are_those_of_the_generators() {
        let default_of = |arguments: &[OptionDefinition], name: &str| {
            let argument = arguments.iter().find(|argument| argument.name == name).expect(name);
            argument.default_text().parse::<u64>().expect("a number")
        };
        let defaults = GeneratorConfig::default();
        assert_eq!(default_of(REPORTS_ARGUMENTS, "expressways"), u64::from(defaults.expressways));
        assert_eq!(default_of(REPORTS_ARGUMENTS, "minutes"), u64::from(defaults.minutes));
        assert_eq!(default_of(REPORTS_ARGUMENTS, "seed"), defaults.seed);
        assert_eq!(default_of(REPORTS_ARGUMENTS, "peak"), u64::from(defaults.peak_reports_per_second));
        let defaults = generator::GeneratorConfig::default();
        for arguments in [REQUESTS_ARGUMENTS, OFFERS_ARGUMENTS] {
            assert_eq!(default_of(arguments, "people"), u64::from(defaults.people));
            assert_eq!(default_of(arguments, "seed"), defaults.seed);
        }
    }
}
