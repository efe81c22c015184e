//! Rows of a query as the columns of a source have them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{DataFusionError, plan_err};
use tidemill_connect::formats::{kept_texts, not_of_type};
use tidemill_engine::Cause;

use crate::expressions::compiled::plain;
use crate::logical::{check_numbers, is_read_of_text, rounded_for, texts, values_of_texts};

/// The rows with all columns of a source: column `i` becomes that of number `places[i]`, and those without a place are NULL.
///
/// Texts become values, and numbers do not become times, as in `CAST`.
///
/// # Errors
/// If a value does not fit its column. The error names the column.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_engine::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
/// use tidemill_engine::arrow::schema::{DataType, Field, Schema};
/// use tidemill_sql::fitted_rows;
///
/// let field = |name, data_type| Field::new(name, data_type, true);
/// let source = Arc::new(Schema::new(vec![field("id", DataType::Int16), field("name", DataType::Utf8)]));
/// let given = |ids: Vec<i64>| RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(ids)) as ArrayRef)]).unwrap();
/// let rows = fitted_rows(&given(vec![7]), &[0], &source).unwrap();
/// assert_eq!(rows.column(1).as_ref(), &StringArray::from(vec![None::<&str>]));
/// assert!(fitted_rows(&given(vec![70_000]), &[0], &source).unwrap_err().message.starts_with("id: "));
/// ```
pub fn fitted_rows(rows: &RecordBatch, places: &[usize], source: &SchemaRef) -> Result<RecordBatch, Cause> {
    let column = |(place, field): (usize, &FieldRef)| match places.iter().position(|given| *given == place) {
        Some(given) => fitted(rows.column(given), field),
        None => fitted(&new_null_array(field.data_type(), rows.num_rows()), field),
    };
    let columns: Vec<ArrayRef> =
        source.fields().iter().enumerate().map(column).collect::<Result<_, Cause>>()?;
    RecordBatch::try_new(Arc::clone(source), columns).map_err(|error| Cause::bug(error.to_string()))
}

fn fitted(column: &ArrayRef, field: &FieldRef) -> Result<ArrayRef, Cause> {
    let name = field.name();
    let said = |error: DataFusionError| Cause::user(format!("{name}: {}", plain(&error))).with_source(error);
    let fitted = kept_texts(field, cast_to_column(column, field.data_type()).map_err(said)?)?;
    if !field.is_nullable() && fitted.null_count() > 0 {
        Err(Cause::user(format!("{name}: the column is NOT NULL, and a row has NULL")))
    } else {
        Ok(fitted)
    }
}

fn cast_to_column(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, DataFusionError> {
    check_numbers(column.data_type(), wanted)?;
    if column.data_type().is_string() && is_read_of_text(wanted) {
        return values_of_texts(column, wanted, false);
    }
    if wanted.is_string() {
        return Ok(cast_with_options(&texts(column)?, wanted, &CastOptions::default())?);
    }
    let column = &rounded_for(column, wanted)?;
    if column.data_type() == wanted {
        return Ok(Arc::clone(column));
    }
    let is_text = column.data_type().is_string();
    let options = CastOptions { safe: is_text, format_options: FormatOptions::default() };
    let values = cast_with_options(column, wanted, &options)?;
    match (0..values.len()).find(|row| is_text && column.is_valid(*row) && values.is_null(*row)) {
        Some(row) => plan_err!("{}", not_of_type(wanted, texts(column)?.value(row))),
        None => Ok(values),
    }
}
