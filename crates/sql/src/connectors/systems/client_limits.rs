//! The options that limit what each client of a listening source may do.

use tidemill_connect::Quotas;

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind, OptionValues};

pub(super) const CONNECTIONS_PER_CLIENT: OptionDefinition = OptionDefinition::new(
    "connections_per_client",
    OptionKind::Integer { least: 1, most: 65_536 },
    OptionDefault::Nothing("no limit"),
    "the number of connections of one client (an address) at a time",
);
pub(super) const ROWS_PER_SECOND: OptionDefinition = OptionDefinition::new(
    "rows_per_second",
    OptionKind::Integer { least: 1, most: i64::MAX },
    OptionDefault::Nothing("no limit"),
    "the rows (lines) that one client (the name of a token, or an address) may send, on average; beyond it HTTP \
     answers 429, and TCP is not read",
);
pub(super) const BYTES_PER_SECOND: OptionDefinition = OptionDefinition::new(
    "bytes_per_second",
    OptionKind::Bytes,
    OptionDefault::Nothing("no limit"),
    "the same in bytes, after decompression",
);

/// What each client may send.
pub(super) fn quotas(options: &OptionValues<'_>) -> Quotas {
    Quotas {
        rows_per_second: options.integer("rows_per_second").and_then(|rows| u64::try_from(rows).ok()),
        bytes_per_second: options.bytes("bytes_per_second"),
    }
}
