//! The built-in generators: `sequence(...)`, `lines(...)`, `yahoo_events(...)`, `yahoo_campaigns(...)`.

use std::sync::Arc;

use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::Format;
use tidemill_connect::formats::text_lines::lines_schema;
use tidemill_connect::generator::sequence::sequence_schema;
use tidemill_connect::generator::yahoo_campaigns::yahoo_campaigns_schema;
use tidemill_connect::generator::yahoo_events::yahoo_events_schema;
use tidemill_connect::generator::{Sequence, SequenceConfig, YahooCampaigns, YahooConfig, YahooEvents};
use tidemill_engine::{Cause, EventTime, arrow::schema::SchemaRef};

use crate::arguments::{Arguments, Value};
use crate::definition::{Open, SourceDefinition};
use crate::extension::Registry;
use crate::projected::Projected;

/// Adds them.
pub(crate) fn register(registry: &mut Registry) {
    registry.generators.insert("sequence".into(), Arc::new(sequence));
    registry.generators.insert("lines".into(), Arc::new(lines));
    registry.generators.insert("yahoo_events".into(), Arc::new(yahoo_events));
    registry.generators.insert("yahoo_campaigns".into(), Arc::new(yahoo_campaigns));
}

const COUNT_MAX: i64 = i64::MAX;
const RATE_MAX: i64 = 1_000_000_000;

fn sequence(arguments: &Arguments) -> Result<SourceDefinition, Cause> {
    let positional = match arguments.positional() {
        [Value::Integer(count)] if *count >= 0 => Some(*count as u64),
        _ => {
            arguments.finish(&["count", "start", "step", "rate"])?;
            None
        }
    };
    let count = arguments.integer("count", 0..=COUNT_MAX)?.map(|count| count as u64).or(positional);
    let config = SequenceConfig {
        start: arguments.integer("start", i64::MIN..=i64::MAX)?.unwrap_or(0),
        count,
        step: arguments.integer("step", i64::MIN..=i64::MAX)?.unwrap_or(1),
        rate: rate(arguments)?,
        start_time_ns: 0,
    };
    Sequence::new(config)?;
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn tidemill_engine::Source>, Cause> {
        Projected::open(Sequence::new(config)?, columns)
    };
    let event_time = Some(EventTime { column: 1, delay_ns: 0 });
    Ok(definition("sequence", sequence_schema(), event_time, config.count.is_some(), Arc::new(open)))
}

/// `lines('logs/*.log')`: the lines of files with any names.
fn lines(arguments: &Arguments) -> Result<SourceDefinition, Cause> {
    let path = match arguments.positional() {
        [Value::Text(path)] => Some(path.as_str()),
        _ => {
            arguments.finish(&["path"])?;
            arguments.text("path")?
        }
    };
    let wanted = || Cause::user("lines() takes a file, a folder or a pattern: lines('messages')");
    let path = path.ok_or_else(wanted)?;
    let mut settings = FileSettings::new(path);
    settings.format = Some(Format::Lines);
    settings.schema = Some(lines_schema());
    FileSource::infer(&mut settings)?;
    let open = move |columns: Option<&[usize]>| super::file::open(settings.clone(), columns);
    Ok(definition("lines", lines_schema(), None, true, Arc::new(open)))
}

fn yahoo_events(arguments: &Arguments) -> Result<SourceDefinition, Cause> {
    let known = ["rate", "count", "campaigns", "ads_per_campaign", "users", "pages", "seed", "out_of_order"];
    arguments.finish(&known)?;
    let defaults = YahooConfig::default();
    let number = |name: &str, default: u32| -> Result<u32, Cause> {
        Ok(arguments.integer(name, 1..=100_000_000)?.map_or(default, |value| value as u32))
    };
    let out_of_order_ns = arguments.interval_ns("out_of_order")?.unwrap_or(0);
    let config = YahooConfig {
        rate: rate(arguments)?,
        count: arguments.integer("count", 0..=COUNT_MAX)?.map(|count| count as u64),
        campaigns: number("campaigns", defaults.campaigns)?,
        ads_per_campaign: number("ads_per_campaign", defaults.ads_per_campaign)?,
        users: number("users", defaults.users)?,
        pages: number("pages", defaults.pages)?,
        seed: arguments.integer("seed", 0..=i64::MAX)?.map_or(defaults.seed, |seed| seed as u64),
        out_of_order_ms: u32::try_from(out_of_order_ns / 1_000_000)
            .map_err(|_| Cause::user("yahoo_events(): out_of_order must be shorter than 49 days"))?,
        start_time_ns: 0,
    };
    YahooEvents::new(config)?;
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn tidemill_engine::Source>, Cause> {
        let mut source = YahooEvents::new(config)?;
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source))
    };
    let event_time = Some(EventTime { column: 5, delay_ns: out_of_order_ns });
    let is_finite = config.count.is_some();
    Ok(definition("yahoo_events", yahoo_events_schema(), event_time, is_finite, Arc::new(open)))
}

fn yahoo_campaigns(arguments: &Arguments) -> Result<SourceDefinition, Cause> {
    arguments.finish(&["campaigns", "ads_per_campaign"])?;
    let defaults = YahooConfig::default();
    let number = |name: &str, default: u32| -> Result<u32, Cause> {
        Ok(arguments.integer(name, 1..=10_000_000)?.map_or(default, |value| value as u32))
    };
    let (campaigns, ads) =
        (number("campaigns", defaults.campaigns)?, number("ads_per_campaign", defaults.ads_per_campaign)?);
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn tidemill_engine::Source>, Cause> {
        Projected::open(YahooCampaigns::new(campaigns, ads)?, columns)
    };
    let mut table = definition("yahoo_campaigns", yahoo_campaigns_schema(), None, true, Arc::new(open));
    table.is_table = true;
    Ok(table)
}

fn rate(arguments: &Arguments) -> Result<Option<u64>, Cause> {
    Ok(arguments.integer("rate", 1..=RATE_MAX)?.map(|rate| rate as u64))
}

fn definition(
    name: &str,
    schema: SchemaRef,
    event_time: Option<EventTime>,
    is_finite: bool,
    open: Arc<Open>,
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
