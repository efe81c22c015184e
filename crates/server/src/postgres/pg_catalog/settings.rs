//! The settings of a session as PostgreSQL's catalogue has them.

use super::table::Cell;
use super::table::CellKind::{self, Flag, Text};

pub(super) const PG_SETTINGS: &[(&str, CellKind)] = &[
    ("name", Text),
    ("setting", Text),
    ("category", Text),
    ("short_desc", Text),
    ("context", Text),
    ("vartype", Text),
    ("source", Text),
    ("boot_val", Text),
    ("reset_val", Text),
    ("pending_restart", Flag),
];

/// The rows of `pg_settings`.
pub(super) fn rows(settings: &[(&'static str, String)]) -> Vec<Vec<Cell>> {
    let row = |(name, value): &(&'static str, String)| -> Vec<Cell> {
        let value = value.as_str();
        let kind = if matches!(value, "on" | "off") { "bool" } else { "string" };
        let mut row: Vec<Cell> = vec![(*name).into(), value.into(), "Client Connection Defaults".into()];
        row.extend(["", "user", kind, "session", value, value].map(Cell::from));
        row.push(false.into());
        row
    };
    settings.iter().map(row).collect()
}
