//! What the engine does and why, for the operator of a pipeline: events as lines on standard error.

use std::fmt;
use std::io;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, enabled};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::terminal;

/// Sets the level; without it, what runs unattended has warnings, and the rest shows only errors and notes.
const LEVEL_VARIABLE: &str = "TIDEMILL_LOG";
const FORMAT_VARIABLE: &str = "TIDEMILL_LOG_FORMAT";

/// The start of the names of all our crates. What libraries log is not ours to explain.
const OUR_TARGETS: &str = "tidemill";
/// No event has this target. It is enabled as far as standard error has the log; ours may be enabled further, for a log that is
/// kept.
const ON_STANDARD_ERROR: &str = "standard_error";

/// Takes the log besides standard error, at least as severe as this.
pub(crate) type KeptLayer = (LevelFilter, Box<dyn Layer<Registry> + Send + Sync>);

/// Options of every command: what to log, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct LogOptions {
    /// Log what happens, and show every cause of an error on its own line; TIDEMILL_LOG=LEVEL does the same
    /// (off, error, warn, info or debug). Without it, run and serve log warnings
    #[arg(long, global = true)]
    verbose: bool,
    /// Format of the log [default: text, or the value of TIDEMILL_LOG_FORMAT]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// An object per line, for programs
    Json,
}

impl LogOptions {
    /// Starts the log if it was asked for, or if the command runs `unattended`: then it has warnings. The command itself
    /// shows the error that ends it, so only a log that was asked for repeats that. What is `kept` has errors, too.
    ///
    /// # Errors
    /// If a variable of the environment has another value than those that it can have.
    pub(crate) fn start(&self, unattended: bool, kept: Option<KeptLayer>) -> Result<(), String> {
        let asked = match std::env::var(LEVEL_VARIABLE) {
            Ok(level) => Some(level_of(&level)?),
            Err(_) => None,
        };
        let asked = if self.verbose { asked.max(Some(LevelFilter::INFO)) } else { asked };
        let level = asked.unwrap_or(if unattended { LevelFilter::WARN } else { LevelFilter::OFF });
        let format = match (self.log_format, std::env::var(FORMAT_VARIABLE)) {
            (Some(format), _) => format,
            (None, Ok(format)) => LogFormat::from_str(&format, true)
                .map_err(|_| format!("{FORMAT_VARIABLE} is '{format}'; it must be text or json"))?,
            (None, Err(_)) => LogFormat::Text,
        };
        if level != LevelFilter::OFF || kept.is_some() {
            install(level, asked.is_some(), format, kept);
        }
        Ok(())
    }
}

/// Whether a log was asked for.
pub(crate) fn is_on() -> bool {
    enabled!(target: ON_STANDARD_ERROR, Level::ERROR)
}

/// Whether the log has warnings, and so notices.
#[cfg(feature = "sql")]
pub(crate) fn has_warnings() -> bool {
    enabled!(target: ON_STANDARD_ERROR, Level::WARN)
}

fn level_of(text: &str) -> Result<LevelFilter, String> {
    match text.to_ascii_lowercase().as_str() {
        "" | "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => Err(format!("{LEVEL_VARIABLE} is '{text}'; it must be off, error, warn, info or debug")),
    }
}

fn install(level: LevelFilter, has_errors: bool, format: LogFormat, kept: Option<KeptLayer>) {
    // Each layer chooses what it writes. A filter for each of them would decide by what another event has left behind when
    // the engine asks whether a level is enabled.
    let is_shown =
        move |event: &Metadata<'_>| *event.level() <= level && (has_errors || *event.level() != Level::ERROR);
    let lines = tracing_subscriber::fmt::layer();
    let lines = lines.with_writer((|| AboveStatusLine).with_filter(is_shown)).with_ansi(false);
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = vec![match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.fmt_fields(JsonObject).event_format(JsonLines).boxed(),
    }];
    let most = kept.as_ref().map_or(level, |(kept, _)| level.max(*kept));
    layers.extend(kept.map(|(_, layer)| layer));
    let targets = Targets::new().with_target(OUR_TARGETS, most).with_target(ON_STANDARD_ERROR, level);
    // Another subscriber can only be there if this was called before.
    let _ =
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layers).with(targets));
}

/// Standard error, where a line that changes may stand.
struct AboveStatusLine;

impl io::Write for AboveStatusLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        terminal::above_status_line(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The fields of a span as one object, which [`JsonLines`] reads.
struct JsonObject;

impl<'writer> FormatFields<'writer> for JsonObject {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut object = Map::new();
        fields.record(&mut JsonFields(&mut object));
        write!(writer, "{}", Value::Object(object))
    }
}

/// An object per event: time, level, target, message, the fields of the spans around the event, such as the query, and its own.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut object = Map::new();
        object.insert("time".into(), time.into());
        object.insert("level".into(), event.metadata().level().as_str().into());
        object.insert("target".into(), event.metadata().target().into());
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>();
            let fields = fields.and_then(|fields| serde_json::from_str::<Map<String, Value>>(fields).ok());
            object.extend(fields.unwrap_or_default());
        }
        event.record(&mut JsonFields(&mut object));
        writeln!(writer, "{}", Value::Object(object))
    }
}

struct JsonFields<'a>(&'a mut Map<String, Value>);

impl Visit for JsonFields<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// Keeps what is written to it.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_json_line_has_every_field_in_its_type() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let lines = lines.fmt_fields(JsonObject).event_format(JsonLines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let _entered = tracing::error_span!("run", query = "top").entered();
            tracing::warn!(
                attempt = 3_u64,
                late = -1_i64,
                durable = true,
                sink = "a \"b\"\n",
                "it is {}",
                "lost"
            );
        });
        let text = String::from_utf8(kept.0.lock().clone()).unwrap();
        assert!(text.ends_with("}\n") && text.lines().count() == 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "time": line["time"], "level": "WARN", "target": "tidemill::logging::tests", "message": "it is lost",
            "query": "top", "attempt": 3, "late": -1, "durable": true, "sink": "a \"b\"\n",
        });
        assert_eq!(line, expected);
        assert!(
            line["time"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')),
            "{text}"
        );
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(level_of("INFO"), Ok(LevelFilter::INFO));
        assert_eq!(level_of(""), Ok(LevelFilter::OFF));
        assert!(level_of("loud").unwrap_err().contains("error, warn, info or debug"));
    }
}
