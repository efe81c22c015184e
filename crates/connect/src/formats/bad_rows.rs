//! The texts of a column, which of their rows are bad, and why.

use arrow_array::BooleanArray;
use arrow_array::types::Float64Type;
use arrow_cast::parse::Parser;
use arrow_schema::{DataType, Field};
use tidemill_core::source::Faults;

use super::sql_type::sql_type;

/// The most bytes of a value that a message shows.
const SHOWN_BYTES: usize = 60;

/// The texts of one column, by row; `None` is NULL.
pub(crate) trait Texts {
    /// The number of rows.
    fn rows(&self) -> usize;
    /// The text of a row.
    fn get(&self, row: usize) -> Option<&str>;
}

/// Which rows of a block are bad, and the reasons of the first ones.
#[derive(Debug, Default)]
pub(crate) struct BadRows {
    /// Empty as long as all are good.
    bad: Vec<bool>,
    count: u64,
    reasons: Vec<(usize, String)>,
    /// Whether each bad row needs its reason.
    keeps_all: bool,
    /// While parts of rows are looked at: the row that each part belongs to, from the outside to the inside.
    owners: Vec<Vec<usize>>,
    /// How many rows there are outside of all parts.
    rows: usize,
}

impl BadRows {
    /// For what is reported to these faults.
    pub(crate) fn of(faults: &Faults) -> BadRows {
        BadRows { keeps_all: faults.records.is_some(), ..BadRows::default() }
    }

    /// Marks a row of `rows`. The reason is created only if it is to be shown.
    #[cold]
    pub(crate) fn mark(&mut self, row: usize, rows: usize, reason: impl FnOnce() -> String) {
        let row = self.owners.iter().rev().fold(row, |part, owners| owners[part]);
        self.bad.resize(if self.owners.is_empty() { rows } else { self.rows }, false);
        if std::mem::replace(&mut self.bad[row], true) {
            return;
        }
        self.count += 1;
        if self.keeps_all || self.reasons.len() < Faults::SAMPLES_MAX {
            self.reasons.push((row, reason()));
        }
    }

    /// Looks at parts of rows, such as the items of lists: what is marked is the row that `owners` has for a part.
    pub(crate) fn within<T>(
        &mut self,
        owners: Vec<usize>,
        rows: usize,
        look: impl FnOnce(&mut BadRows) -> T,
    ) -> T {
        if self.owners.is_empty() {
            self.rows = rows;
        }
        self.owners.push(owners);
        let found = look(self);
        self.owners.pop();
        found
    }

    /// Why the first bad row is one.
    pub(crate) fn first(&self) -> Option<&str> {
        self.reasons.first().map(|(_, reason)| reason.as_str())
    }

    /// Whether all bad rows are reported with their records.
    pub(crate) fn keeps_all(&self) -> bool {
        self.keeps_all
    }

    /// Whether one of these rows is bad.
    pub(crate) fn any_in(&self, rows: std::ops::Range<usize>) -> bool {
        self.count > 0 && self.bad[rows].contains(&true)
    }

    /// Which rows are good; `None`: all.
    pub(crate) fn good(&self) -> Option<BooleanArray> {
        (self.count > 0).then(|| self.bad.iter().map(|bad| Some(!bad)).collect())
    }

    /// Adds them to `faults`; `place` returns the place of a row, and `text` its record.
    pub(crate) fn report<'a>(
        self,
        faults: &mut Faults,
        place: impl Fn(usize) -> String,
        text: impl Fn(usize) -> &'a [u8],
    ) {
        self.report_rows(faults, |faults, row, reason| {
            faults.add_record(|| place(row), || reason, text(row));
        });
    }

    /// Reports each row of which the reason is known to `add`, in their order, and counts the others.
    pub(crate) fn report_rows(
        mut self,
        faults: &mut Faults,
        mut add: impl FnMut(&mut Faults, usize, String),
    ) {
        self.reasons.sort_by_key(|(row, _)| *row);
        let shown = self.reasons.len() as u64;
        for (row, reason) in self.reasons {
            add(faults, row, reason);
        }
        faults.count += self.count - shown;
    }
}

/// The message for a missing required value.
pub(super) fn no_value(field: &Field) -> String {
    format!("column '{}' is NOT NULL, but has no value", field.name())
}

/// Why a text is not a value of a column.
pub(super) fn mismatch(field: &Field, text: &str) -> String {
    format!("column '{}': {}", field.name(), not_of_type(field.data_type(), text))
}

/// Returns why a text is not a value of a type.
pub fn not_of_type(data_type: &DataType, text: &str) -> String {
    let shown = match text.char_indices().find(|(at, _)| *at >= SHOWN_BYTES) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    };
    let name = sql_type(data_type);
    let is_number = Float64Type::parse(text.trim_ascii()).is_some();
    if data_type.is_integer() && is_number {
        format!("{shown} does not fit into {name}")
    } else {
        let article = if name.starts_with(['A', 'I']) { "an" } else { "a" };
        // A text may be JSON, whose quotes are shown as they are.
        let shown: String = shown.chars().flat_map(escaped).collect();
        format!("'{shown}' is not {article} {name}")
    }
}

/// A character as a message shows it: control characters as escapes.
fn escaped(character: char) -> impl Iterator<Item = char> {
    let (plain, escape) = match character {
        '"' | '\'' => (Some(character), None),
        other => (None, Some(other.escape_debug())),
    };
    plain.into_iter().chain(escape.into_iter().flatten())
}
