//! `format = 'line_protocol'`, and `connector = 'line_protocol'`, which accepts it on whatever `listen` names.

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::formats::line_protocol::{LineProtocolSettings, Precision};

use super::sources::Opened;
use super::{http, sockets};
use crate::statement::Options;
use crate::text_error::TextError;

/// The options of the format.
pub(super) const OPTIONS: &[&str] =
    &["precision", "measurements", "time_column", "measurement_column", "line_bytes_max", "values_max"];

/// How line protocol is read.
pub(super) fn settings(options: &Options) -> Result<LineProtocolSettings, TextError> {
    let mut settings = LineProtocolSettings::default();
    if let Some(unit) = options.choice("precision", &["ns", "us", "ms", "s"])? {
        settings.precision = Precision::named(unit).unwrap_or_default();
    }
    if let Some(names) = options.text("measurements")? {
        settings.measurements = names.split(',').map(|name| name.trim().to_owned()).collect();
    }
    if let Some(column) = options.text("time_column")? {
        settings.time_column = column.to_owned();
    }
    if let Some(column) = options.text("measurement_column")? {
        settings.measurement_column = column.to_owned();
    }
    if let Some(most) = options.integer("line_bytes_max", 1..=1 << 20)? {
        settings.line_bytes_max = most as usize;
    }
    if let Some(most) = options.integer("values_max", 1..=65_536)? {
        settings.values_max = most as usize;
    }
    Ok(settings)
}

/// `connector = 'line_protocol', listen = 'tcp://127.0.0.1:8094'`; also `udp://`, `http://` and `unix://`.
pub(super) fn connector(
    options: &Options,
    declared: Option<SchemaRef>,
    is_durable: bool,
) -> Result<Opened, TextError> {
    let address = options.required_text("listen")?;
    if options.get("format").is_some() {
        return Err(options.error("format", "the connector line_protocol has its format already"));
    }
    match address.split_once("://").map(|(scheme, _)| scheme) {
        Some("tcp") => sockets::tcp(options, declared),
        Some("unix") => sockets::unix(options, declared),
        Some("udp") => sockets::udp(options, declared),
        Some("http") => http::http(options, declared, is_durable),
        _ => {
            let error =
                options.error("listen", format!("'{address}' does not say by which protocol to listen"));
            Err(error.with_hint("write tcp://, udp://, http:// or unix:// before it: 'tcp://127.0.0.1:8094'"))
        }
    }
}

/// Refuses the options of line protocol where they would have no effect: for other formats, and for files, standard
/// input and topics, which are always read in nanoseconds and with the usual columns.
pub(super) fn refuse_options(options: &Options) -> Result<(), TextError> {
    match OPTIONS.iter().find(|name| options.get(name).is_some()) {
        Some(name) => Err(options
            .error(name, format!("'{name}' is about line protocol that comes by tcp, unix, udp or http"))),
        None => Ok(()),
    }
}
