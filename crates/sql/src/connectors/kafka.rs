//! `connector = 'kafka'`: turns options into topics. Without the feature `kafka` the name is known, but refused.

use std::sync::Arc;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::formats::{DecoderSettings, Format};

use super::sinks::OpenSink;
use super::sources::Opened;
use crate::statement::Options;
use crate::text_error::TextError;

/// Options of a source, in addition to those of all sources.
pub(super) const SOURCE: &[&str] = &["brokers", "topic", "start", "end_at_end"];
/// Options of a sink, in addition to those of all sinks.
pub(super) const SINK: &[&str] = &["brokers", "topic", "key", "delivery_wait"];

/// A topic to read, with messages in this format.
#[cfg(feature = "kafka")]
pub(super) fn source(
    options: &Options,
    format: Format,
    decoder: DecoderSettings,
) -> Result<Opened, TextError> {
    use tidemill_connect::kafka::{KafkaSource, KafkaSourceSettings, KafkaStart};
    if options.boolean("header")?.is_some() {
        let error = options.error("header", "a message has no header");
        return Err(error.with_hint("leave the option out: each message is one record"));
    }
    let raw = Arc::clone(&decoder.schema);
    let settings = KafkaSourceSettings {
        brokers: options.required_text("brokers")?.to_owned(),
        topic: options.required_text("topic")?.to_owned(),
        format,
        decoder,
        start: match options.choice("start", &["earliest", "latest"])? {
            Some("latest") => KafkaStart::Latest,
            _ => KafkaStart::Earliest,
        },
        end_at_end: options.boolean("end_at_end")?.unwrap_or(false),
    };
    let is_finite = settings.end_at_end;
    let open: Arc<crate::definition::Open> = Arc::new(move |columns| {
        let mut source = KafkaSource::open(settings.clone())?;
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source) as Box<dyn tidemill_engine::Source>)
    });
    Ok(Opened { raw, is_finite, open })
}

/// A topic to write, with messages in this format.
#[cfg(feature = "kafka")]
pub(super) fn sink(options: &Options, format: TextFormat) -> Result<Arc<OpenSink>, TextError> {
    use tidemill_connect::kafka::{KafkaSink, KafkaSinkSettings};
    let (brokers, topic) = (options.required_text("brokers")?, options.required_text("topic")?);
    let mut settings = KafkaSinkSettings::new(brokers, topic, format);
    settings.key = options.text("key")?.map(str::to_owned);
    if let Some(wait_ns) = options.duration_ns("delivery_wait")? {
        settings.delivery_wait = std::time::Duration::from_nanos(wait_ns.max(1) as u64);
    }
    Ok(Arc::new(move |of| Ok(Box::new(KafkaSink::connect(of.schema, settings.clone())?))))
}

/// Refused.
#[cfg(not(feature = "kafka"))]
pub(super) fn source(
    options: &Options,
    _format: Format,
    _decoder: DecoderSettings,
) -> Result<Opened, TextError> {
    Err(not_built_in(options))
}

/// Refused.
#[cfg(not(feature = "kafka"))]
pub(super) fn sink(options: &Options, _format: TextFormat) -> Result<Arc<OpenSink>, TextError> {
    Err(not_built_in(options))
}

#[cfg(not(feature = "kafka"))]
fn not_built_in(options: &Options) -> TextError {
    let error = options.error("connector", "this build has no Kafka");
    error.with_hint("build one that has: cargo build --release -p tidemill-cli --features kafka")
}
