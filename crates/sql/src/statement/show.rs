//! `SHOW ...`.

use super::StatementKind;
use super::parser::cursor::Cursor;
use crate::TextError;

/// What `SHOW` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShowKind {
    /// The sources.
    Sources,
    /// The dimension tables.
    Tables,
    /// The views, materialized ones included.
    Views,
    /// The processes and their places.
    Processes,
    /// The names of places.
    Places,
    /// The pools.
    Pools,
    /// The sinks.
    Sinks,
    /// The functions that queries may call.
    Functions,
    /// The settings and their values.
    Settings,
    /// The connectors.
    Connectors,
    /// The options of connectors and formats.
    Options,
}

const KINDS: [(&str, ShowKind); 11] = [
    ("SOURCES", ShowKind::Sources),
    ("TABLES", ShowKind::Tables),
    ("VIEWS", ShowKind::Views),
    ("PROCESSES", ShowKind::Processes),
    ("PLACES", ShowKind::Places),
    ("POOLS", ShowKind::Pools),
    ("SINKS", ShowKind::Sinks),
    ("FUNCTIONS", ShowKind::Functions),
    ("SETTINGS", ShowKind::Settings),
    ("CONNECTORS", ShowKind::Connectors),
    ("OPTIONS", ShowKind::Options),
];

/// Reads what follows `SHOW`.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<StatementKind, TextError> {
    for (word, kind) in KINDS {
        if cursor.take(&[word]) {
            return Ok(StatementKind::Show(kind));
        }
    }
    Err(cursor.expected_one_of(&KINDS.map(|(word, _)| word)))
}
