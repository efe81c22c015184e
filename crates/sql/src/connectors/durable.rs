//! `durable = true`: the options of a source whose rows are journaled.

use tidemill_engine::{StreamSettings, SyncPolicy};

use crate::definition::DurableStream;
use crate::statement::{OptionValue, Options};
use crate::text_error::TextError;

/// The options that are read here.
pub(super) const OPTIONS: &[&str] = &["durable", "sync", "journal_max", "retain", "clients_max"];

/// How a source is journaled; `None` if it is not.
pub(super) fn durable(options: &Options) -> Result<Option<DurableStream>, TextError> {
    if !is_durable(options)? {
        let other = OPTIONS.iter().find(|name| **name != "durable" && options.get(name).is_some());
        return match other {
            Some(name) => {
                let error = options.error(name, format!("'{name}' is about the journal of a durable source"));
                Err(error.with_hint("add durable = true"))
            }
            None => Ok(None),
        };
    }
    let mut stream = StreamSettings::default();
    if let Some(most) = options.bytes("journal_max")? {
        stream.bytes_max = most;
    }
    if let Some(kept) = options.bytes("retain")? {
        stream.retain_bytes = kept;
    }
    if let Some(most) = options.integer("clients_max", 1..=10_000_000)? {
        stream.clients_max = most as usize;
    }
    if stream.bytes_max < 2 * stream.segment_bytes {
        let least = (2 * stream.segment_bytes) >> 20;
        return Err(options.error("journal_max", format!("a journal needs at least {least} MiB")));
    }
    Ok(Some(DurableStream { stream, sync: sync(options)? }))
}

/// `durable = true`, or the equivalent `'local'`. A number of nodes is reserved for clusters.
fn is_durable(options: &Options) -> Result<bool, TextError> {
    let Some(value) = options.get("durable") else { return Ok(false) };
    match &value.value {
        OptionValue::Boolean(is_durable) => Ok(*is_durable),
        OptionValue::Text(text) if text.eq_ignore_ascii_case("local") => Ok(true),
        OptionValue::Number(_) => {
            let error =
                options.error("durable", "a number of nodes is for clusters, which are not there yet");
            Err(error.with_hint("say durable = true, which is on this machine"))
        }
        _ => Err(options.error("durable", "say durable = true or durable = false")),
    }
}

/// `sync = 'every cycle'`, `'50 ms'` or `'never'`
fn sync(options: &Options) -> Result<SyncPolicy, TextError> {
    match options.text("sync")?.map(str::to_ascii_lowercase).as_deref() {
        None | Some("every cycle" | "every_cycle") => Ok(SyncPolicy::AtOnce),
        Some("never") => Ok(SyncPolicy::Never),
        Some(_) => match options.duration("sync") {
            Ok(Some(interval)) if !interval.is_zero() => Ok(SyncPolicy::Every(interval)),
            _ => Err(options.error("sync", "say sync = 'every cycle', a time such as '50 ms', or 'never'")),
        },
    }
}
