//! The relations of PostgreSQL's catalogue and the columns of each, as PostgreSQL 15 has them.
//!
//! `system_columns.txt` has a line for each relation: its name, its number if it is a table, and its columns with their types. The
//! test `a_real_postgresql_has_the_same_columns` compares the file with a server.

use super::cell::{Cell, CellKind};

const RELATIONS: &str = include_str!("system_columns.txt");

/// A column of a relation.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemColumn {
    pub name: &'static str,
    pub kind: CellKind,
    /// Its value in a row that says nothing about it.
    default: Default,
}

/// The value of a column of which nothing is known.
#[derive(Clone, Copy, Debug)]
enum Default {
    Null,
    Zero,
    No,
    Empty,
    /// No function.
    Dash,
}

impl SystemColumn {
    /// Its value in a row that says nothing about it.
    pub fn default(&self) -> Cell {
        match self.default {
            Default::Null => Cell::Null,
            Default::Zero => 0_i64.into(),
            Default::No => false.into(),
            Default::Empty => "".into(),
            Default::Dash => "-".into(),
        }
    }

    /// Reads `name type`, or `name type!` of a column that is never NULL.
    fn read(text: &'static str) -> Option<SystemColumn> {
        let (name, kind) = text.split_once(' ')?;
        let (kind, is_required) = match kind.strip_suffix('!') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let (kind, default) = match kind {
            "text" => (CellKind::Text, Default::Empty),
            "function" => (CellKind::Text, Default::Dash),
            "number" => (CellKind::Number, Default::Zero),
            "real" => (CellKind::Real, Default::Zero),
            "flag" => (CellKind::Flag, Default::No),
            "time" => (CellKind::Moment, Default::Null),
            "texts" => (CellKind::Texts, Default::Null),
            "numbers" => (CellKind::Numbers, Default::Null),
            "vector" => (CellKind::Vector, Default::Null),
            _ => return None,
        };
        Some(SystemColumn { name, kind, default: if is_required { default } else { Default::Null } })
    }
}

/// The line of a relation: its number, if it is a table, and its columns.
fn line(name: &str) -> Option<(Option<i64>, &'static str)> {
    RELATIONS.lines().find_map(|line| {
        let (relation, columns) = line.split_once(": ")?;
        let (known, number) = match relation.split_once(' ') {
            Some((known, number)) => (known, number.parse().ok()),
            None => (relation, None),
        };
        (known == name).then_some((number, columns))
    })
}

/// Whether there is a relation of this name. Those of `information_schema` have its name before theirs.
pub(super) fn is_known(name: &str) -> bool {
    (name.starts_with("pg_") || name.starts_with("information_schema_")) && line(name).is_some()
}

/// The number of a table of the catalogue.
pub(super) fn number(name: &str) -> Option<i64> {
    line(name)?.0
}

/// The columns of a relation; none if there is no such relation.
pub(super) fn of(name: &str) -> Vec<SystemColumn> {
    let columns = line(name).map(|(_, columns)| columns.split(", "));
    columns.into_iter().flatten().filter_map(SystemColumn::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_can_be_read() {
        for line in RELATIONS.lines() {
            let (relation, columns) = line.split_once(": ").unwrap();
            let name = relation.split(' ').next().unwrap();
            assert!(is_known(name), "{name}");
            assert_eq!(of(name).len(), columns.split(", ").count(), "{name}");
        }
        assert_eq!((number("pg_class"), number("pg_roles"), number("prices")), (Some(1259), None, None));
        assert!(!is_known("prices"));
    }

    #[test]
    fn what_is_never_null_has_a_value() {
        let columns = of("pg_type");
        let value = |name: &str| {
            let column = columns.iter().find(|column| column.name == name).unwrap();
            format!("{:?}", column.default())
        };
        assert_eq!(value("typanalyze"), "Text(\"-\")");
        assert_eq!(value("typbyval"), "Flag(false)");
        assert_eq!(value("typacl"), "Null");
    }
}
