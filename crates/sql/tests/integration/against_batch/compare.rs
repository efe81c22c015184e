//! Whether two answers have the same rows.

use std::cmp::Ordering;
use std::fmt;

use datafusion::arrow::array::types::Float64Type;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// How far floating point numbers may be apart, relative to the larger one or 1.
const TOLERANCE: f64 = 1e-9;

/// A value.
#[derive(Clone, Debug)]
pub enum Cell {
    Null,
    Float(f64),
    Exact(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => formatter.write_str("NULL"),
            Cell::Float(value) => write!(formatter, "{value:?}"),
            Cell::Exact(text) => write!(formatter, "'{text}'"),
        }
    }
}

impl Cell {
    fn is_close(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Float(one), Cell::Float(other)) => {
                let scale = one.abs().max(other.abs()).max(1.0);
                one.to_bits() == other.to_bits()
                    || one == other
                    || (one - other).abs() <= TOLERANCE * scale
                    || (one.is_nan() && other.is_nan())
            }
            (Cell::Exact(one), Cell::Exact(other)) => one == other,
            (Cell::Null, Cell::Null) => true,
            _ => false,
        }
    }

    /// Exact values first, for numbers that are only close must not decide the order.
    fn exact(&self) -> Option<&str> {
        match self {
            Cell::Exact(text) => Some(text),
            _ => None,
        }
    }

    fn float(&self) -> f64 {
        match self {
            Cell::Float(value) => *value,
            _ => f64::NEG_INFINITY,
        }
    }
}

/// The values of each row.
pub fn cells(rows: &RecordBatch) -> Vec<Vec<Cell>> {
    let columns: Vec<Vec<Cell>> = rows.columns().iter().map(column).collect();
    (0..rows.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

fn column(column: &ArrayRef) -> Vec<Cell> {
    if column.data_type().is_floating() {
        let values = cast(column, &DataType::Float64).expect("floating point numbers can be widened");
        let values = values.as_primitive::<Float64Type>();
        return values.iter().map(|value| value.map_or(Cell::Null, Cell::Float)).collect();
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options).expect("the type can be shown");
    let cell = |row| {
        if column.is_null(row) || *column.data_type() == DataType::Null {
            Cell::Null
        } else {
            Cell::Exact(formatter.value(row).to_string())
        }
    };
    (0..column.len()).map(cell).collect()
}

fn order(one: &[Cell], other: &[Cell]) -> Ordering {
    let exact = one.iter().map(Cell::exact).cmp(other.iter().map(Cell::exact));
    let floats = || one.iter().zip(other).map(|(one, other)| one.float().total_cmp(&other.float()));
    exact.then_with(|| floats().find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
}

/// Texts are texts, however they are laid out.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::Dictionary(_, values) => plain(values),
        other => other.clone(),
    }
}

/// What differs, if anything does; the rows in any order.
pub fn difference(streamed: &RecordBatch, batch: &RecordBatch) -> Option<String> {
    let types = |rows: &RecordBatch| -> Vec<DataType> {
        rows.schema().fields().iter().map(|field| plain(field.data_type())).collect()
    };
    if types(streamed) != types(batch) {
        return Some(format!("the types: streamed {:?}, in batch {:?}", types(streamed), types(batch)));
    }
    let sorted = |rows: &RecordBatch| {
        let mut cells = cells(rows);
        cells.sort_by(|one, other| order(one, other));
        cells
    };
    let (streamed, batch) = (sorted(streamed), sorted(batch));
    let close = |one: &[Cell], other: &[Cell]| one.iter().zip(other).all(|(one, other)| one.is_close(other));
    let equal =
        streamed.len() == batch.len() && streamed.iter().zip(&batch).all(|(one, other)| close(one, other));
    if equal {
        return None;
    }
    let missing = |from: &[Vec<Cell>], of: &[Vec<Cell>]| {
        let rows = of.iter().filter(|row| !from.iter().any(|other| close(row, other)));
        rows.map(|row| shown(row)).collect::<Vec<_>>().join("\n  ")
    };
    Some(format!(
        "{} rows streamed, {} in batch; streamed only:\n  {}\nin batch only:\n  {}",
        streamed.len(),
        batch.len(),
        missing(&batch, &streamed),
        missing(&streamed, &batch)
    ))
}

/// The rows as text, in their order.
pub fn lines(rows: &RecordBatch) -> Vec<String> {
    cells(rows).iter().map(|row| shown(row)).collect()
}

fn shown(row: &[Cell]) -> String {
    row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
}
