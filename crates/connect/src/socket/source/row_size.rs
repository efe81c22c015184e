//! How large the rows can be that are made of text, before it is decoded.

use arrow_schema::{DataType, Schema};

/// The shortest record that makes a row has this many bytes, with the end of its line.
const RECORD_BYTES_MIN: usize = 2;

/// The most bytes of rows that a byte of text becomes: every record is as short as it can be, and the columns have their
/// width nevertheless. The text itself comes on top.
pub(super) fn bytes_per_byte(schema: &Schema) -> usize {
    let row: usize = schema.fields().iter().map(|field| width(field.data_type())).sum();
    row.div_ceil(RECORD_BYTES_MIN) + 2
}

/// The bytes that a value takes besides its text: also a NULL.
fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(item, count) => {
            width(item.data_type()) * usize::try_from(*count).unwrap_or(1)
        }
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or(1),
        DataType::Struct(fields) => fields.iter().map(|field| width(field.data_type())).sum::<usize>() + 1,
        DataType::Dictionary(keys, _) => width(keys),
        DataType::Utf8View | DataType::BinaryView => 16,
        DataType::Boolean => 1,
        // Offsets of texts and lists.
        other => other.primitive_width().unwrap_or(8).max(4) + 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, Schema};

    use super::*;

    fn schema(types: impl IntoIterator<Item = DataType>) -> Schema {
        let fields = types
            .into_iter()
            .enumerate()
            .map(|(index, data_type)| Field::new(format!("column_{index}"), data_type, true));
        Schema::new(fields.collect::<Vec<_>>())
    }

    #[test]
    fn wide_rows_cost_what_their_columns_do() {
        let narrow = bytes_per_byte(&schema([DataType::Int64, DataType::Utf8]));
        assert!(narrow >= 2 + 8, "{narrow}");
        let wide = bytes_per_byte(&schema(vec![DataType::Int64; 1000]));
        assert!((4000..8000).contains(&wide), "{wide}");
        let item = Arc::new(Field::new("item", DataType::Float32, true));
        let vector = bytes_per_byte(&schema([DataType::FixedSizeList(item, 1000)]));
        assert!((2000..4000).contains(&vector), "{vector}");
    }
}
