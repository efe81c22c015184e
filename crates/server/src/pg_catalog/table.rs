//! Small tables, row by row.

use std::sync::Arc;

use tidemill_engine::arrow::array::builder::{Int64Builder, ListBuilder};
use tidemill_engine::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, new_null_array,
};
use tidemill_engine::arrow::schema::{DataType, Field};

use crate::values::INT2VECTOR;

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

/// A small table.
pub(super) struct Table {
    pub columns: &'static [(&'static str, CellKind)],
    pub values: Vec<Vec<Cell>>,
}

impl Table {
    /// Its rows. A value of another type than its column's is NULL.
    pub fn rows(&self) -> RecordBatch {
        let column = |(index, (name, kind)): (usize, &(&'static str, CellKind))| {
            let cells = self.values.iter().map(|row| row.get(index).unwrap_or(&Cell::Null));
            let array: ArrayRef = match kind {
                CellKind::Text => Arc::new(
                    cells
                        .map(|cell| match cell {
                            Cell::Text(text) => Some(text.as_str()),
                            _ => None,
                        })
                        .collect::<StringArray>(),
                ),
                CellKind::Texts => {
                    let item = Field::new_list_field(DataType::Utf8, true);
                    new_null_array(&DataType::List(Arc::new(item)), self.values.len())
                }
                CellKind::Numbers => lists(DataType::Int64, "item", cells),
                CellKind::Vector => lists(DataType::Int64, INT2VECTOR, cells),
                CellKind::Number => Arc::new(
                    cells
                        .map(|cell| match cell {
                            Cell::Number(number) => Some(*number),
                            _ => None,
                        })
                        .collect::<Int64Array>(),
                ),
                CellKind::Moment => Arc::new(
                    cells
                        .map(|cell| match cell {
                            Cell::Moment(micros) => Some(*micros),
                            _ => None,
                        })
                        .collect::<TimestampMicrosecondArray>(),
                ),
                CellKind::Flag => Arc::new(
                    cells
                        .map(|cell| match cell {
                            Cell::Flag(flag) => Some(*flag),
                            _ => None,
                        })
                        .collect::<BooleanArray>(),
                ),
            };
            (*name, array, true)
        };
        let columns = self.columns.iter().enumerate().map(column);
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of equal length")
    }
}

/// A column of lists of numbers, whose items have this name.
fn lists<'a>(kind: DataType, item: &str, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    let field = Field::new(item, kind, true);
    let mut lists = ListBuilder::new(Int64Builder::new()).with_field(field);
    for cell in cells {
        match cell {
            Cell::Numbers(numbers) => lists.append_value(numbers.iter().copied().map(Some)),
            _ => lists.append_null(),
        }
    }
    Arc::new(lists.finish())
}
