//! `connector = 'http'`: rows are posted, in line protocol or as JSON.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::formats::{BATCH_ROWS, DecoderSettings, Format};
use tidemill_connect::http::{HttpSettings, HttpSource};
use tidemill_engine::Source;

use super::line_protocol;
use super::sockets::without_scheme;
use super::sources::{Opened, declared_or, format, known};
use crate::definition::Open;
use crate::statement::Options;
use crate::text_error::TextError;

const OPTIONS: &[&str] = &[
    "listen",
    "allow_remote",
    "token",
    "connections_max",
    "body_max",
    "lines_max",
    "queue",
    "answer_timeout",
];

/// A source to which clients post. The requests of a durable source are answered when their rows are in its journal.
pub(super) fn http(
    options: &Options,
    declared: Option<SchemaRef>,
    is_durable: bool,
) -> Result<Opened, TextError> {
    known(options, OPTIONS)?;
    let raw = declared_or(options, declared, "HTTP")?;
    let address = without_scheme(options.required_text("listen")?, "http");
    let decoder =
        DecoderSettings { schema: Arc::clone(&raw), csv: Default::default(), batch_rows: BATCH_ROWS };
    let mut settings = HttpSettings::new(&address, decoder);
    settings.formats = formats(options)?;
    match settings.formats.contains(&Format::LineProtocol) {
        true => settings.line_protocol = line_protocol::settings(options)?,
        false => line_protocol::refuse_options(options)?,
    }
    settings.acknowledge = is_durable;
    settings.allow_remote = options.boolean("allow_remote")?.unwrap_or(false);
    settings.token = options.text("token")?.map(str::to_owned);
    limits(options, &mut settings)?;
    let open: Arc<Open> = Arc::new(move |columns| {
        let mut source = HttpSource::listen(settings.clone())?;
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source) as Box<dyn Source>)
    });
    Ok(Opened { raw, is_finite: false, open })
}

/// Both formats, unless one is named; the connector line_protocol implies its own.
fn formats(options: &Options) -> Result<Vec<Format>, TextError> {
    if options.text("connector")? == Some("line_protocol") {
        return Ok(vec![Format::LineProtocol]);
    }
    match format(options)? {
        None => Ok(vec![Format::LineProtocol, Format::Json]),
        Some(named @ (Format::LineProtocol | Format::Json)) => Ok(vec![named]),
        Some(_) => Err(options.error("format", "line_protocol and json can be posted")),
    }
}

fn limits(options: &Options, settings: &mut HttpSettings) -> Result<(), TextError> {
    if let Some(most) = options.integer("connections_max", 1..=65_536)? {
        settings.connections_max = most as usize;
    }
    if let Some(most) = options.bytes("body_max")? {
        settings.body_bytes_max = most as usize;
    }
    if let Some(most) = options.integer("lines_max", 1..=100_000_000)? {
        settings.lines_max = most as usize;
    }
    if let Some(most) = options.bytes("queue")? {
        settings.queue_bytes = most as usize;
    }
    if let Some(limit) = options.duration("answer_timeout")? {
        settings.answer_timeout = limit.max(Duration::from_nanos(1));
    }
    Ok(())
}
