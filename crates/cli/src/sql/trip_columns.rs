//! The columns of requests between the types of SQL and those of the operators of trip grouping, whose times are numbers.

use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Int64Type, TimestampNanosecondType};
use tidemill_engine::arrow::array::{Array, ArrayRef, RecordBatch};
use tidemill_engine::arrow::schema::{DataType, Field, SchemaRef, TimeUnit};

/// Where the columns of an operator's input are among those of a query's table.
#[derive(Clone)]
pub(super) struct TripColumns {
    /// The function that is called.
    function: &'static str,
    /// What a row is.
    row: &'static str,
    places: Vec<usize>,
    /// The operator's own columns.
    schema: SchemaRef,
}

impl TripColumns {
    /// Finds the columns by their names. `wanted` has their types in SQL, and `schema` those of the operator.
    ///
    /// # Errors
    /// If a column is missing, or has another type.
    pub fn find(
        (function, row): (&'static str, &'static str),
        wanted: &[Arc<Field>],
        schema: SchemaRef,
        input: Option<&SchemaRef>,
    ) -> Result<TripColumns, Cause> {
        let find = |field: &Arc<Field>| {
            let (index, found) = input?.column_with_name(field.name())?;
            (found.data_type() == field.data_type()).then_some(index)
        };
        let places = wanted.iter().map(find).collect::<Option<Vec<usize>>>().ok_or_else(|| {
            let found: Vec<String> =
                input.into_iter().flat_map(|input| input.fields().iter().map(described)).collect();
            let wanted: Vec<String> = wanted.iter().map(described).collect();
            let tables = if row == "offer" { "a table of offers" } else { "one table" };
            Cause::user(format!(
                "{function}() takes {tables} with the columns {}; found {}; select and cast them accordingly",
                wanted.join(", "),
                found.join(", ")
            ))
        })?;
        Ok(TripColumns { function, row, places, schema })
    }

    /// The operator's input.
    ///
    /// # Errors
    /// If a value is NULL.
    pub fn of(&self, given: &RecordBatch) -> Result<RecordBatch, Cause> {
        let columns: Vec<ArrayRef> =
            self.places.iter().map(|column| as_number(given.column(*column))).collect();
        let mut named = self.schema.fields().iter().zip(&columns);
        if let Some((field, _)) = named.find(|(_, column)| column.null_count() > 0) {
            let TripColumns { function, row, .. } = self;
            let article = if *row == "offer" { "an" } else { "a" };
            return Err(Cause::user(format!(
                "{function}() was given {article} {row} whose {} is NULL; leave such rows out with WHERE",
                field.name()
            )));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(bug)
    }
}

/// The type of times in SQL.
pub(super) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

/// Numbers as times.
pub(super) fn as_time(column: &ArrayRef) -> ArrayRef {
    Arc::new(column.as_primitive::<Int64Type>().reinterpret_cast::<TimestampNanosecondType>())
}

/// An error that only a mistake of ours can cause.
pub(super) fn bug(error: impl std::error::Error + Send + Sync + 'static) -> Cause {
    Cause::bug(error.to_string()).with_source(error)
}

/// A column as SQL names its type.
fn described(field: &Arc<Field>) -> String {
    let data_type = match field.data_type() {
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP".to_owned(),
        other => other.to_string().to_uppercase(),
    };
    format!("{} {data_type}", field.name())
}

fn as_number(column: &ArrayRef) -> ArrayRef {
    match column.as_primitive_opt::<TimestampNanosecondType>() {
        Some(times) => Arc::new(times.reinterpret_cast::<Int64Type>()),
        None => Arc::clone(column),
    }
}
