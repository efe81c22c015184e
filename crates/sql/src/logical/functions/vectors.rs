//! Columns of vectors: lists of floating-point numbers.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, ListBuilder, PrimitiveBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::Result;

/// `DOUBLE[]`
pub(super) fn vector_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
}

/// Whether values of a type can be used as vectors.
pub(super) fn is_vector(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_numeric() || item.data_type().is_null()
        }
        other => other.is_null(),
    }
}

/// A column of vectors.
pub(super) struct Vectors(ListArray);

impl Vectors {
    pub fn of(column: &ArrayRef) -> Result<Vectors> {
        Ok(Vectors(cast(column, &vector_type())?.as_list().clone()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// `None` if it is NULL, or contains a NULL.
    pub fn at(&self, row: usize) -> Option<&[f64]> {
        let whole = self.0.values().as_primitive::<Float64Type>();
        let offsets = self.0.value_offsets();
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        let known = self.0.is_valid(row) && (start..end).all(|at| whole.is_valid(at));
        known.then(|| &whole.values()[start..end])
    }
}

/// Makes a column of vectors.
pub(super) fn vectors() -> ListBuilder<PrimitiveBuilder<Float64Type>> {
    ListBuilder::new(PrimitiveBuilder::new())
}

/// Adds a vector, or NULL.
pub(super) fn append(vectors: &mut ListBuilder<PrimitiveBuilder<Float64Type>>, vector: Option<&[f64]>) {
    if let Some(vector) = vector {
        vectors.values().append_slice(vector);
    }
    vectors.append(vector.is_some());
}
