//! The registry of settings: all that is known of each stands in one place.

use std::path::PathBuf;
use std::time::Duration;

use tidemill_engine::{Bytes, Rebalancing};

use super::Settings;
use super::persisted_value::PersistedValue;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind, OptionValues};

/// A setting that `SET` changes.
pub(super) struct Setting {
    /// Its default counts only where it depends on the machine or the script; otherwise it is what [`Settings::default`]
    /// has.
    pub definition: OptionDefinition,
    pub set: fn(&mut Settings, &OptionValues<'_>, &str),
    pub show: fn(&Settings) -> String,
    /// The value that is kept with a query.
    pub value: fn(&mut Settings) -> &mut dyn PersistedValue,
    /// Whether it is kept only if it differs from the program's: it belongs to the machine or the folder.
    pub is_of_place: bool,
}

const ROWS: OptionKind = OptionKind::Integer { least: 1, most: 1 << 32 };

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        definition: definition("workers", OptionKind::Integer { least: 1, most: 256 }, "worker threads")
            .with_default("one per core"),
        set: |settings, value, name| value.set_integer(name, &mut settings.workers),
        show: |settings| settings.workers.to_string(),
        value: |settings| &mut settings.workers,
        is_of_place: true,
    },
    Setting {
        definition: definition(
            "partitions",
            OptionKind::Integer { least: 1, most: 4096 },
            "logical partitions of each operator with keys; part of the query",
        ),
        set: |settings, value, name| value.set_integer(name, &mut settings.partitions),
        show: |settings| settings.partitions.to_string(),
        value: |settings| &mut settings.partitions,
        is_of_place: false,
    },
    Setting {
        definition: definition(
            "cycle_events",
            OptionKind::Integer { least: 1, most: 1 << 28 },
            "the maximum number of events in a cycle",
        ),
        set: |settings, value, name| value.set_integer(name, &mut settings.cycle_events),
        show: |settings| settings.cycle_events.to_string(),
        value: |settings| &mut settings.cycle_events,
        is_of_place: false,
    },
    Setting {
        definition: definition(
            "cycle_fixed",
            OptionKind::Boolean,
            "whether each cycle has exactly that many events",
        ),
        set: |settings, value, name| settings.cycle_fixed = value.boolean(name),
        show: |settings| settings.cycle_fixed.to_string(),
        value: |settings| &mut settings.cycle_fixed,
        is_of_place: false,
    },
    Setting {
        definition: definition(
            "rebalance",
            OptionKind::Boolean,
            "whether partitions of operators leave workers that have more to do than others; results do not \
             depend on it",
        ),
        set: |settings, value, name| {
            settings.rebalancing =
                if value.boolean(name) { Rebalancing::default() } else { Rebalancing::Off };
        },
        show: |settings| (settings.rebalancing != Rebalancing::Off).to_string(),
        value: |settings| &mut settings.rebalancing,
        is_of_place: false,
    },
    Setting {
        definition: definition(
            "max_groups",
            ROWS,
            "groups of an aggregation in one partition, distinct values of a `count(DISTINCT ...)`, rows of hopping \
             windows that close together; if there are more, the query stops with that reason",
        ),
        set: |settings, value, name| value.set_integer(name, &mut settings.max_groups),
        show: |settings| settings.max_groups.to_string(),
        value: |settings| &mut settings.max_groups,
        is_of_place: false,
    },
    Setting {
        definition: definition("max_state_rows", ROWS, "rows held by a join, a running function or a buffer"),
        set: |settings, value, name| value.set_integer(name, &mut settings.max_state_rows),
        show: |settings| settings.max_state_rows.to_string(),
        value: |settings| &mut settings.max_state_rows,
        is_of_place: false,
    },
    Setting {
        definition: definition(
            "memory_limit",
            OptionKind::Bytes,
            "the memory that a query may hold: the state of its operators, the tables that it reads, and an answer \
             that is computed at the end; a query that needs more ends with an error that names the part; \
             `0`: as much as the whole process (`--memory`)",
        ),
        set: |settings, value, name| settings.memory_limit = value.bytes(name).filter(|limit| *limit > 0),
        show: |settings| {
            settings.memory_limit.map_or("that of the process".into(), |bytes| Bytes(bytes).to_string())
        },
        value: |settings| &mut settings.memory_limit,
        is_of_place: false,
    },
    Setting {
        definition: definition("max_result_rows", ROWS, "rows of an answer that is computed at the end"),
        set: |settings, value, name| value.set_integer(name, &mut settings.max_result_rows),
        show: |settings| settings.max_result_rows.to_string(),
        value: |settings| &mut settings.max_result_rows,
        is_of_place: false,
    },
    Setting {
        definition: definition(
            "idle_after",
            OptionKind::Duration,
            "after this time without rows, a source no longer holds back the watermark; `'0 s'`: it always \
             does",
        ),
        set: |settings, value, name| settings.idle_after = value.duration(name).unwrap_or_default(),
        show: |settings| shown(settings.idle_after),
        value: |settings| &mut settings.idle_after,
        is_of_place: false,
    },
    Setting {
        definition: definition(
            "max_latency",
            OptionKind::Duration,
            "the bound on the time from arrival to result, for queries that set none; `'0 s'`: no bound",
        ),
        set: |settings, value, name| {
            settings.max_latency = value.duration(name).filter(|bound| !bound.is_zero());
        },
        show: |settings| settings.max_latency.map_or("none".into(), shown),
        value: |settings| &mut settings.max_latency,
        is_of_place: false,
    },
    Setting {
        definition: definition("journal", OptionKind::Text, "the folder of a durable pipeline's journal")
            .with_default("`NAME.journal` beside the script"),
        set: |settings, value, name| settings.journal = value.text(name).map(PathBuf::from),
        show: |settings| {
            settings.journal.as_ref().map_or("none".into(), |folder| folder.display().to_string())
        },
        value: |settings| &mut settings.journal,
        is_of_place: true,
    },
    Setting {
        definition: definition(
            "snapshot_every",
            OptionKind::Duration,
            "the interval between snapshots of the state of a durable pipeline",
        ),
        set: |settings, value, name| {
            settings.snapshot_every = value.duration(name).unwrap_or_default().max(Duration::from_millis(10));
        },
        show: |settings| shown(settings.snapshot_every),
        value: |settings| &mut settings.snapshot_every,
        is_of_place: false,
    },
];

const fn definition(name: &'static str, kind: OptionKind, doc: &'static str) -> OptionDefinition {
    OptionDefinition::new(name, kind, OptionDefault::Nothing(""), doc)
}

impl OptionDefinition {
    /// What people read as the default.
    const fn with_default(self, text: &'static str) -> OptionDefinition {
        OptionDefinition { default: OptionDefault::Nothing(text), ..self }
    }
}

fn shown(length: Duration) -> String {
    crate::text::duration::display_ns(length.as_nanos() as i64)
}
