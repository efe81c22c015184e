//! Rows as tuples.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Schema};
use tidemill_engine::Cause;

use crate::names::Names;
use crate::value::{Scalar, Value};

/// A row of up to eight columns, as a tuple of [`Value`]s, such as `(String, Option<f64>)`. A tuple of one is `(i64,)`.
pub trait Row: Sized + Send + 'static {
    /// The columns from which rows are read.
    type Columns: Send;

    /// The fields of such rows.
    ///
    /// # Errors
    /// If the number of names differs from the number of values. The error says so.
    fn fields(names: &[String]) -> Result<Vec<Field>, String>;

    /// Checks that these columns of a stream can be read as such rows.
    ///
    /// # Errors
    /// If they cannot. The error says which and why.
    fn check(schema: &Schema, columns: &[usize]) -> Result<(), String>;

    /// The columns to read from.
    ///
    /// # Errors
    /// If the columns have not been checked, which is a bug.
    fn columns(rows: &RecordBatch, columns: &[usize]) -> Result<Self::Columns, Cause>;

    /// A row; `None` if a value is NULL that must not be.
    fn get(columns: &Self::Columns, row: usize) -> Option<Self>;

    /// Columns of these rows.
    fn arrays(rows: Vec<Self>) -> Vec<ArrayRef>;
}

/// A column that is read, with its NULLs.
pub struct ReadColumn<V: Value> {
    values: <V::Scalar as Scalar>::Column,
    nulls: Option<NullBuffer>,
}

impl<V: Value> ReadColumn<V> {
    fn new(array: &ArrayRef) -> Result<Self, Cause> {
        Ok(ReadColumn { values: V::Scalar::column(array)?, nulls: array.logical_nulls() })
    }

    #[inline]
    fn get(&self, row: usize) -> Option<V> {
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        V::from_scalar((!is_null).then(|| V::Scalar::get(&self.values, row)))
    }
}

fn check_column<V: Value>(field: &Field) -> Result<(), String> {
    let (name, data_type) = (field.name(), field.data_type());
    let wanted = std::any::type_name::<V::Scalar>().rsplit("::").next().unwrap_or_default();
    if !V::Scalar::accepts(data_type) {
        return Err(format!("column '{name}' is {data_type}, which cannot be read as {wanted}"));
    }
    if field.is_nullable() && !V::NULLABLE {
        Err(format!("column '{name}' may be NULL; read it as Option<{wanted}>"))
    } else {
        Ok(())
    }
}

macro_rules! rows {
    ($(($count:literal $($name:ident $index:tt)*))*) => {
        $(impl<$($name: Value),*> Row for ($($name,)*) {
            type Columns = ($(ReadColumn<$name>,)*);

            fn fields(names: &[String]) -> Result<Vec<Field>, String> {
                if names.len() != $count {
                    return Err(format!("rows of {} values need one name per value, not {}", $count, names.len()));
                }
                Ok(vec![$(Field::new(&names[$index], $name::Scalar::data_type(), $name::NULLABLE)),*])
            }

            fn check(schema: &Schema, columns: &[usize]) -> Result<(), String> {
                if columns.len() != $count {
                    return Err(format!("rows of {} values need one column per value, not {}", $count, columns.len()));
                }
                $(check_column::<$name>(schema.field(columns[$index]))?;)*
                Ok(())
            }

            fn columns(rows: &RecordBatch, columns: &[usize]) -> Result<Self::Columns, Cause> {
                Ok(($(ReadColumn::new(rows.column(columns[$index]))?,)*))
            }

            #[inline]
            fn get(columns: &Self::Columns, row: usize) -> Option<Self> {
                Some(($(columns.$index.get(row)?,)*))
            }

            #[allow(non_snake_case, reason = "the macro names a column's values like its type")]
            fn arrays(rows: Vec<Self>) -> Vec<ArrayRef> {
                let room = rows.len();
                $(let mut $name = Vec::with_capacity(room);)*
                for row in rows {
                    $($name.push(row.$index.into_scalar());)*
                }
                vec![$($name::Scalar::array($name)),*]
            }
        })*
    };
}

rows!(
    (1 A 0) (2 A 0 B 1) (3 A 0 B 1 C 2) (4 A 0 B 1 C 2 D 3) (5 A 0 B 1 C 2 D 3 E 4) (6 A 0 B 1 C 2 D 3 E 4 F 5)
    (7 A 0 B 1 C 2 D 3 E 4 F 5 G 6) (8 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
);

/// The rows of a batch, one after the other.
///
/// # Errors
/// If a value is NULL although its column does not allow that: the code that made the rows has a bug.
pub(crate) fn each<R: Row>(
    rows: &RecordBatch,
    columns: &[usize],
    mut take: impl FnMut(usize, R) -> Result<(), Cause>,
) -> Result<(), Cause> {
    let readers = R::columns(rows, columns)?;
    for row in 0..rows.num_rows() {
        let values =
            R::get(&readers, row).ok_or_else(|| Cause::bug("a column that must not have NULL has one"))?;
        take(row, values)?;
    }
    Ok(())
}

/// Some columns of a batch as tuples, for tests and other code that need not be fast.
///
/// ```
/// use std::sync::Arc;
/// use tidemill::arrow::array::{Int64Array, RecordBatch};
/// let values = Arc::new(Int64Array::from(vec![Some(7), None])) as _;
/// let rows = RecordBatch::try_from_iter([("value", values)]).unwrap();
/// assert_eq!(tidemill::rows_of::<(Option<i64>,)>(&rows, "value")?, [(Some(7),), (None,)]);
/// # Ok::<(), tidemill::Cause>(())
/// ```
///
/// # Errors
/// If a column does not exist, has another type, or has a NULL that the tuple cannot hold.
pub fn rows_of<R: Row>(rows: &RecordBatch, columns: impl Names) -> Result<Vec<R>, Cause> {
    let index = |name: String| {
        rows.schema_ref().index_of(&name).map_err(|error| Cause::user(error.to_string()).with_source(error))
    };
    let columns = columns.names().into_iter().map(index).collect::<Result<Vec<_>, _>>()?;
    R::check(rows.schema_ref(), &columns).map_err(Cause::user)?;
    let mut tuples = Vec::with_capacity(rows.num_rows());
    each::<R>(rows, &columns, |_, row| {
        tuples.push(row);
        Ok(())
    })?;
    Ok(tuples)
}
