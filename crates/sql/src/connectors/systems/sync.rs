//! `sync = 'every_commit'`: when written data is forced to disk.

use tidemill_connect::file::SyncPolicy;

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind, OptionValues};

pub(super) const SYNC: OptionDefinition = OptionDefinition::new(
    "sync",
    OptionKind::Choice(&["every_commit", "at_end", "never"]),
    OptionDefault::Value("at_end"),
    "when data is forced to disk",
);

pub(super) const OVERWRITE: OptionDefinition = OptionDefinition::new(
    "overwrite",
    OptionKind::Boolean,
    OptionDefault::Value("false"),
    "replaces what is there (in a folder, only files named `part-...`)",
);

/// The chosen policy.
pub(super) fn sync(options: &OptionValues<'_>) -> SyncPolicy {
    match options.text("sync") {
        Some("every_commit") => SyncPolicy::EveryCommit,
        Some("never") => SyncPolicy::Never,
        _ => SyncPolicy::AtEnd,
    }
}
