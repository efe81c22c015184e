//! What the command knows by name beyond the language itself: the traffic of Linear Road.

use std::sync::Arc;

use tidemill_engine::{Cause, EventTime};
use tidemill_linear_road::generator::{GeneratorConfig, MINUTES_MAX, PEAK_REPORTS_PER_SECOND_MAX};
use tidemill_linear_road::source::{LinearRoadReports, linear_road_reports_schema};
use tidemill_sql::{Arguments, Planner, Projected, SourceDefinition};

const NAME: &str = "linear_road_reports";
/// The event time's column.
const TIME: &str = "event_time";

/// Registers all of it.
pub(crate) fn register(planner: &mut Planner) {
    planner.register_generator(NAME, Arc::new(linear_road_reports));
}

/// `linear_road_reports(expressways => 1, minutes => 30, seed => 1, peak => 1700)`
fn linear_road_reports(arguments: &Arguments) -> Result<SourceDefinition, Cause> {
    arguments.finish(&["expressways", "minutes", "seed", "peak"])?;
    let defaults = GeneratorConfig::default();
    let number = |name: &str, default: i64, most: i64| -> Result<i64, Cause> {
        Ok(arguments.integer(name, 1..=most)?.unwrap_or(default))
    };
    // The numbers fit: each is at most what its type holds.
    let config = GeneratorConfig {
        expressways: number("expressways", defaults.expressways.into(), i64::from(u16::MAX))? as u16,
        minutes: number("minutes", defaults.minutes.into(), MINUTES_MAX.into())? as u16,
        seed: arguments.integer("seed", 0..=i64::MAX)?.map_or(defaults.seed, |seed| seed as u64),
        peak_reports_per_second: number(
            "peak",
            defaults.peak_reports_per_second.into(),
            PEAK_REPORTS_PER_SECOND_MAX.into(),
        )? as u32,
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
