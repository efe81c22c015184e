//! The column with the point of each row that queries see of a view.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};

/// What queries call the point of a row.
pub(crate) const POINT: &str = "point";

/// The column that a view with a point has beside these; `None` if it has no point, or a column has the name already.
pub(crate) fn point_field(columns: &Schema, point: Option<[usize; 2]>) -> Option<Field> {
    let is_new = point.is_some() && columns.index_of(POINT).is_err();
    let coordinates = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
    is_new.then(|| Field::new(POINT, coordinates, true))
}
