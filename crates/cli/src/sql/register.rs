//! What the command knows by name beyond the language itself: the traffic of Linear Road, requests for trips and how
//! they are grouped.

use std::sync::Arc;

use tidemill_engine::{Cause, EventTime};
use tidemill_linear_road::generator::{GeneratorConfig, MINUTES_MAX, PEAK_REPORTS_PER_SECOND_MAX};
use tidemill_linear_road::source::{LinearRoadReports, linear_road_reports_schema};
use tidemill_sql::{
    DeclaredValues, Generator, OptionDefault, OptionDefinition, OptionKind, Planner, Projected,
    SourceDefinition,
};
use tidemill_trip_grouping::generator::{self, PEOPLE_MAX};
use tidemill_trip_grouping::source::{TripRequests, trip_requests_schema};

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
    planner.register_generator(REQUESTS, requests);
    planner.register_operator("group_trips", Arc::new(GroupTripsFunction));
    planner.register_operator("share_rides", Arc::new(ShareRidesFunction));
}

const REQUESTS: &str = "trip_requests";

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
];

/// A number as it was declared, so that it fits.
fn number<T: TryFrom<i64>>(arguments: &DeclaredValues, name: &str, default: T) -> T {
    arguments.integer(name).and_then(|value| value.try_into().ok()).unwrap_or(default)
}

/// `trip_requests(people => 600000, seed => 7)`
fn trip_requests(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let defaults = generator::GeneratorConfig::default();
    let config = generator::GeneratorConfig {
        people: number(arguments, "people", defaults.people),
        seed: number(arguments, "seed", defaults.seed),
        ..defaults
    };
    let open = move |columns: Option<&[usize]>| Projected::open(TripRequests::new(config)?, columns);
    let schema = trip_requests_schema();
    let column =
        schema.index_of("requested").map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
    Ok(SourceDefinition {
        event_time: Some(EventTime { column, delay_ns: 0 }),
        ordered: true,
        is_finite: true,
        is_repeatable: true,
        ..SourceDefinition::new(REQUESTS, schema, Arc::new(open))
    })
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
        assert_eq!(default_of(REQUESTS_ARGUMENTS, "people"), u64::from(defaults.people));
        assert_eq!(default_of(REQUESTS_ARGUMENTS, "seed"), defaults.seed);
    }
}
