//! `durable = true`: the options of a source whose rows are journaled.

use tidemill_engine::{StreamSettings, SyncPolicy};

use crate::relations::source_definition::DurableStream;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind, OptionValues};
use crate::statement::{OptionValue, Options};
use crate::text::TextError;

/// The options that are read here.
pub(super) const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new(
        "durable",
        OptionKind::Choice(&["true", "false", "local"]),
        OptionDefault::Value("false"),
        "`true` or `'local'`: journals the rows on this machine",
    ),
    OptionDefinition::new(
        "sync",
        OptionKind::DurationOr(&["every cycle", "every_cycle", "never"]),
        OptionDefault::Value("every cycle"),
        "when rows are forced to disk, and therefore when senders are acknowledged: immediately (waiting rows \
         are synced together), at an interval (`'50 ms'`), or `'never'`, which survives a crash of the process \
         but not of the machine",
    )
    .only_with("durable"),
    OptionDefinition::new(
        "journal_max",
        OptionKind::Bytes,
        OptionDefault::Value("16 GB"),
        "the maximum disk space for this stream; at the limit, senders are held back until sinks commit",
    )
    .only_with("durable"),
    OptionDefinition::new(
        "retain",
        OptionKind::Bytes,
        OptionDefault::Value("0"),
        "how much of the journal to keep for replay after it is no longer needed",
    )
    .only_with("durable"),
    OptionDefinition::new(
        "clients_max",
        OptionKind::Integer { least: 1, most: 10_000_000 },
        OptionDefault::Value("10000"),
        "how many senders' last request numbers are remembered, and beside them how many idempotency keys",
    )
    .only_with("durable"),
];

/// How a source is journaled; `None` if it is not.
pub(super) fn durable(options: &OptionValues<'_>) -> Result<Option<DurableStream>, TextError> {
    if options.text("durable") == Some("false") {
        return Ok(None);
    }
    let mut stream = StreamSettings::default();
    stream.bytes_max = options.bytes("journal_max").unwrap_or(stream.bytes_max);
    stream.retain_bytes = options.bytes("retain").unwrap_or(stream.retain_bytes);
    options.set_integer("clients_max", &mut stream.clients_max);
    if stream.bytes_max < 2 * stream.segment_bytes {
        let least = (2 * stream.segment_bytes) >> 20;
        let message = format!("a journal needs at least {least} MiB");
        return Err(options.given().error("journal_max", message));
    }
    let sync = match (options.duration("sync"), options.text("sync")) {
        (Some(interval), _) => SyncPolicy::Every(interval),
        (None, Some("never")) => SyncPolicy::Never,
        (None, _) => SyncPolicy::AtOnce,
    };
    Ok(Some(DurableStream { stream, sync, version: 0 }))
}

/// `durable = 3` is reserved for clusters.
pub(super) fn refuse_nodes(options: &Options) -> Result<(), TextError> {
    match options.get("durable").map(|entry| &entry.value) {
        Some(OptionValue::Number(_)) => {
            let error = options.error(
                "durable",
                "a number of nodes needs a cluster, and clusters are not supported \
                    yet",
            );
            Err(error.with_hint("write durable = true to journal on this machine"))
        }
        _ => Ok(()),
    }
}
