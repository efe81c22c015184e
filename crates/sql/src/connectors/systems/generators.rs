//! The built-in generators: `sequence(...)`, `lines(...)`, `yahoo_events(...)`, `yahoo_campaigns(...)`.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_connect::fetch::S3Settings;
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::text_lines::lines_schema;
use tidemill_connect::formats::{Format, timestamp_ns};
use tidemill_connect::generator::sequence::sequence_schema;
use tidemill_connect::generator::yahoo_campaigns::yahoo_campaigns_schema;
use tidemill_connect::generator::yahoo_events::yahoo_events_schema;
use tidemill_connect::generator::{Sequence, SequenceConfig, YahooCampaigns, YahooConfig, YahooEvents};
use tidemill_engine::{Cause, EventTime, arrow::schema::SchemaRef};

use crate::generator::Generator;
use crate::relations::projected::Projected;
use crate::relations::source_definition::{OpenSource, SourceDefinition};
use crate::statement::declared::{DeclaredValues, OptionDefault, OptionDefinition, OptionKind};

/// All of them, by name.
pub(crate) fn built_in_generators() -> BTreeMap<String, Arc<Generator>> {
    let sequence = Generator::new("numbers, one after another", SEQUENCE, sequence).with_first_by_position();
    let lines = Generator::new("the lines of files with any names", LINES, lines)
        .with_first_by_position()
        .with_files();
    let events = Generator::new("the events of the Yahoo streaming benchmark", YAHOO_EVENTS, yahoo_events);
    let campaigns =
        Generator::new("the table of its advertisements and campaigns", YAHOO_CAMPAIGNS, yahoo_campaigns);
    let all =
        [("sequence", sequence), ("lines", lines), ("yahoo_events", events), ("yahoo_campaigns", campaigns)];
    all.into_iter().map(|(name, generator)| (name.to_owned(), Arc::new(generator))).collect()
}

const fn integer(
    name: &'static str,
    least: i64,
    default: OptionDefault,
    doc: &'static str,
) -> OptionDefinition {
    OptionDefinition::new(name, OptionKind::Integer { least, most: i64::MAX }, default, doc)
}

/// A number of things that the events name.
const fn number(name: &'static str, most: i64, default: &'static str, doc: &'static str) -> OptionDefinition {
    let kind = OptionKind::Integer { least: 1, most };
    OptionDefinition::new(name, kind, OptionDefault::Value(default), doc)
}

const COUNT: OptionDefinition =
    integer("count", 0, OptionDefault::Nothing("endless"), "the number of rows, after which it ends");

const RATE: OptionDefinition = OptionDefinition::new(
    "rate",
    OptionKind::Integer { least: 1, most: 1_000_000_000 },
    OptionDefault::Nothing("as fast as possible"),
    "rows per second, in real time and in event time",
);

const START_TIME: OptionDefinition = OptionDefinition::new(
    "start_time",
    OptionKind::Text,
    OptionDefault::Value("1970-01-01 00:00:00"),
    "the event time of the first row, in UTC",
);

/// The argument `start_time` in nanoseconds since 1970.
fn start_time_ns(arguments: &DeclaredValues) -> Result<i64, Cause> {
    let text = arguments.required_text("start_time");
    timestamp_ns(text).ok_or_else(|| {
        Cause::user(format!(
            "start_time => '{text}' is not a time; write '2026-03-01 12:00:00' or '2026-03-01'"
        ))
    })
}

const SEQUENCE: &[OptionDefinition] = &[
    COUNT,
    integer("start", i64::MIN, OptionDefault::Value("0"), "the first number"),
    integer("step", i64::MIN, OptionDefault::Value("1"), "what is added to get the next number"),
    RATE,
    START_TIME,
];

fn sequence(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let defaults = SequenceConfig::default();
    let config = SequenceConfig {
        start: arguments.integer("start").unwrap_or(defaults.start),
        count: unsigned(arguments, "count"),
        step: arguments.integer("step").unwrap_or(defaults.step),
        rate: unsigned(arguments, "rate"),
        start_time_ns: start_time_ns(arguments)?,
    };
    Sequence::new(config)?;
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn tidemill_engine::Source>, Cause> {
        Projected::open(Sequence::new(config)?, columns)
    };
    let event_time = Some(EventTime { column: 1, delay_ns: 0 });
    Ok(definition("sequence", sequence_schema(), event_time, config.count.is_some(), Arc::new(open)))
}

const LINES: &[OptionDefinition] = &[OptionDefinition::new(
    "path",
    OptionKind::Text,
    OptionDefault::Required,
    "a file, a folder or a pattern: `lines('messages')`",
)];

fn lines(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let mut settings = FileSettings::new(arguments.required_text("path"));
    settings.format = Some(Format::Lines);
    settings.fetch.s3 = S3Settings::from_environment();
    settings.schema = Some(lines_schema());
    FileSource::infer(&mut settings)?;
    let open = move |columns: Option<&[usize]>| super::file::open(settings.clone(), columns);
    Ok(definition("lines", lines_schema(), None, true, Arc::new(open)))
}

const CAMPAIGNS: OptionDefinition = number("campaigns", 10_000_000, "100", "how many campaigns there are");
const ADS: OptionDefinition =
    number("ads_per_campaign", 10_000_000, "10", "how many advertisements each one has");

const YAHOO_EVENTS: &[OptionDefinition] = &[
    RATE,
    COUNT,
    CAMPAIGNS,
    ADS,
    number("users", 100_000_000, "100", "how many users there are"),
    number("pages", 100_000_000, "100", "how many pages there are"),
    integer("seed", 0, OptionDefault::Value("1"), "another seed makes other rows"),
    OptionDefinition::new(
        "out_of_order",
        OptionKind::Duration,
        OptionDefault::Value("0 s"),
        "how far event times may be out of order; less than 49 days",
    ),
    START_TIME,
];

fn yahoo_events(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let out_of_order = arguments.duration("out_of_order").unwrap_or_default();
    let too_long = |_| Cause::user("yahoo_events(): out_of_order must be shorter than 49 days");
    let config = YahooConfig {
        rate: unsigned(arguments, "rate"),
        count: unsigned(arguments, "count"),
        users: few(arguments, "users"),
        pages: few(arguments, "pages"),
        seed: unsigned(arguments, "seed").unwrap_or_default(),
        out_of_order_ms: u32::try_from(out_of_order.as_millis()).map_err(too_long)?,
        start_time_ns: start_time_ns(arguments)?,
        ..campaigns(arguments)
    };
    YahooEvents::new(config)?;
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn tidemill_engine::Source>, Cause> {
        let mut source = YahooEvents::new(config)?;
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source))
    };
    // At most 49 days, which fit.
    let delay_ns = out_of_order.as_nanos() as i64;
    let event_time = Some(EventTime { column: 5, delay_ns });
    let is_finite = config.count.is_some();
    Ok(definition("yahoo_events", yahoo_events_schema(), event_time, is_finite, Arc::new(open)))
}

const YAHOO_CAMPAIGNS: &[OptionDefinition] = &[CAMPAIGNS, ADS];

fn yahoo_campaigns(arguments: &DeclaredValues) -> Result<SourceDefinition, Cause> {
    let YahooConfig { campaigns, ads_per_campaign, .. } = campaigns(arguments);
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn tidemill_engine::Source>, Cause> {
        Projected::open(YahooCampaigns::new(campaigns, ads_per_campaign)?, columns)
    };
    let mut table = definition("yahoo_campaigns", yahoo_campaigns_schema(), None, true, Arc::new(open));
    table.is_table = true;
    Ok(table)
}

fn campaigns(arguments: &DeclaredValues) -> YahooConfig {
    let (campaigns, ads_per_campaign) = (few(arguments, "campaigns"), few(arguments, "ads_per_campaign"));
    YahooConfig { campaigns, ads_per_campaign, ..YahooConfig::default() }
}

/// A number that is not negative, as it was declared.
fn unsigned(arguments: &DeclaredValues, name: &str) -> Option<u64> {
    arguments.integer(name).and_then(|value| value.try_into().ok())
}

/// A number with a default that fits, as it was declared.
fn few(arguments: &DeclaredValues, name: &str) -> u32 {
    arguments.integer(name).and_then(|value| value.try_into().ok()).unwrap_or_default()
}

fn definition(
    name: &str,
    schema: SchemaRef,
    event_time: Option<EventTime>,
    is_finite: bool,
    open: Arc<OpenSource>,
) -> SourceDefinition {
    SourceDefinition {
        // Generators themselves say how far behind a row may be.
        ordered: event_time.is_some_and(|event_time| event_time.delay_ns == 0),
        event_time,
        is_finite,
        is_repeatable: is_finite,
        ..SourceDefinition::new(name, schema, open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_defaults_are_those_of_the_generators() {
        let declared = |arguments: &'static [OptionDefinition]| {
            let values = arguments.iter().filter(|argument| argument.default != OptionDefault::Required);
            let values = values.map(|argument| (argument.name, argument.typed_default().unwrap()));
            DeclaredValues::new(values.collect())
        };
        let events = declared(YAHOO_EVENTS);
        let YahooConfig { users, pages, seed, .. } = YahooConfig::default();
        assert_eq!((few(&events, "users"), few(&events, "pages")), (users, pages));
        assert_eq!(unsigned(&events, "seed"), Some(seed));
        assert_eq!(campaigns(&events), YahooConfig::default());
        assert_eq!(campaigns(&declared(YAHOO_CAMPAIGNS)), YahooConfig::default());
        let sequence = declared(SEQUENCE);
        let SequenceConfig { start, step, .. } = SequenceConfig::default();
        assert_eq!((sequence.integer("start"), sequence.integer("step")), (Some(start), Some(step)));
    }
}
