//! Small tables, row by row.

use std::sync::Arc;

use tidemill_engine::arrow::array::builder::{Int64Builder, ListBuilder};
use tidemill_engine::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    new_null_array,
};
use tidemill_engine::arrow::schema::{DataType, Field};

pub(super) use super::cell::{Cell, CellKind};
use super::system_columns::{self, SystemColumn};
use crate::postgres::values::INT2VECTOR;

/// A small table.
pub(super) struct Table {
    pub columns: &'static [(&'static str, CellKind)],
    pub values: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub const EMPTY: Table = Table { columns: &[], values: Vec::new() };

    /// Returns its rows as PostgreSQL's relation of this name has them: with all columns of that relation. What the table does not say
    /// has the column's default. With `identity`, each row also has the hidden columns of a table that clients read to notice changes.
    pub fn rows(&self, name: &str, identity: Option<Identity>) -> RecordBatch {
        let own = |column: SystemColumn| {
            let index = self.columns.iter().position(|(own, _)| *own == column.name);
            let kind = index.map_or(column.kind, |index| self.columns[index].1);
            let default = column.default();
            let cells = self.values.iter();
            let cells =
                cells.map(|row| index.map_or(&default, |index| row.get(index).unwrap_or(&Cell::Null)));
            (column.name, array(kind, cells), true)
        };
        let mut columns: Vec<_> = system_columns::of(name).into_iter().map(own).collect();
        if let (Some(Identity { version }), Some(number)) = (identity, system_columns::number(name)) {
            for (name, value) in [("tableoid", number), ("xmin", version)] {
                let cell = Cell::Number(value);
                columns.push((name, array(CellKind::Number, self.values.iter().map(|_| &cell)), true));
            }
        }
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of equal length")
    }
}

/// What the hidden columns of a row say.
#[derive(Clone, Copy)]
pub(super) struct Identity {
    /// The transaction that wrote the row: the newest version of the catalogue.
    pub version: i64,
}

impl Identity {
    /// The hidden columns, if a statement names one of them.
    pub fn asked(statement: &str, version: i64) -> Option<Identity> {
        let statement = statement.to_ascii_lowercase();
        ["xmin", "tableoid"].iter().any(|name| statement.contains(name)).then_some(Identity { version })
    }
}

/// A column. A value of another type than the column's is NULL.
fn array<'a>(kind: CellKind, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    match kind {
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
            new_null_array(&DataType::List(Arc::new(item)), cells.count())
        }
        CellKind::Numbers => lists(DataType::Int64, "item", cells),
        CellKind::Vector => lists(DataType::Int64, INT2VECTOR, cells),
        CellKind::Number => Arc::new(cells.map(number).collect::<Int64Array>()),
        CellKind::Real => {
            Arc::new(cells.map(|cell| number(cell).map(|number| number as f64)).collect::<Float64Array>())
        }
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
    }
}

fn number(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
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
