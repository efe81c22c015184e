//! Normalises columns so that equal values have equal bits.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, make_array};
use arrow_schema::DataType;
use tidemill_core::Cause;

use crate::arrow_bug::arrow_bug;

/// The column without a dictionary, with -0 as 0 and all NaN as one value.
pub(crate) fn normalise(column: &ArrayRef, plain: &DataType) -> Result<ArrayRef, Cause> {
    let column = if column.data_type() == plain {
        ArrayRef::clone(column)
    } else {
        arrow_cast::cast(column, plain).map_err(arrow_bug("keys"))?
    };
    fn map<T: ArrowPrimitiveType>(column: &ArrayRef, normal: impl Fn(T::Native) -> T::Native) -> ArrayRef {
        Arc::new(column.as_primitive::<T>().unary::<_, T>(normal))
    }
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    Ok(match plain {
        DataType::Float16 => map::<Float16Type>(&column, |value| {
            if value.is_nan() {
                Half::NAN
            } else if value == Half::NEG_ZERO {
                Half::ZERO
            } else {
                value
            }
        }),
        DataType::Float32 => {
            map::<Float32Type>(&column, |value| if value.is_nan() { f32::NAN } else { value + 0.0 })
        }
        DataType::Float64 => {
            map::<Float64Type>(&column, |value| if value.is_nan() { f64::NAN } else { value + 0.0 })
        }
        nested if has_floats(nested) => {
            let data = column.to_data();
            let children = data.child_data().iter().map(|child| make_array(child.clone()));
            let children = children.map(|child| normalise(&child, child.data_type()));
            let children = children.map(|child| child.map(|child| child.to_data()));
            let children = children.collect::<Result<Vec<_>, Cause>>()?;
            make_array(data.into_builder().child_data(children).build().map_err(arrow_bug("keys"))?)
        }
        _ => column,
    })
}

/// Returns whether values of a type have floating-point numbers in them.
pub(crate) fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_floats(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        other => other.is_floating(),
    }
}
