//! The values of small tables, and the types of their columns.

/// A value of a table.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Text(String),
    Number(i64),
    Flag(bool),
    Numbers(Vec<i64>),
    /// Microseconds since 1970.
    Moment(i64),
    /// A value that is absent.
    Null,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Number(number)
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Cell {
        Cell::Flag(flag)
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum CellKind {
    Text,
    Number,
    /// A number with a fraction.
    Real,
    Flag,
    /// A time.
    Moment,
    /// A list of texts that is never there.
    Texts,
    /// A list of numbers.
    Numbers,
    /// A list of numbers of columns, an `int2vector`.
    Vector,
}
