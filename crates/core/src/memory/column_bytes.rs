//! What the values of a column take. Arrow's own count of a slice leaves out the texts behind string views, and counts the elements of all
//! lists for each slice of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, GenericListArray, OffsetSizeTrait};
use arrow_schema::DataType;

/// A text up to this length is in its view.
const INLINE_BYTES_MAX: u32 = 12;

/// Returns the bytes of the values of a column: only their own share of buffers that they share with others. Values that view the same
/// text count it once.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{Array, ArrayRef, StringViewArray};
/// use tidemill_core::memory::bytes_of_column;
/// let texts = StringViewArray::from(vec!["a text of 26 characters   ", "short"]);
/// let texts = Arc::new(texts) as ArrayRef;
/// assert_eq!(bytes_of_column(&texts), 2 * 16 + 26);
/// assert_eq!(bytes_of_column(&texts.slice(1, 1)), 16);
/// ```
pub fn bytes_of_column(column: &ArrayRef) -> usize {
    let nulls = if column.nulls().is_some() { column.len().div_ceil(8) } else { 0 };
    match column.data_type() {
        DataType::Utf8View => of_views(column.as_string_view()) + nulls,
        DataType::BinaryView => of_views(column.as_binary_view()) + nulls,
        DataType::List(_) => of_lists(column.as_list::<i32>()) + nulls,
        DataType::LargeList(_) => of_lists(column.as_list::<i64>()) + nulls,
        DataType::FixedSizeList(_, length) => {
            let lists = column.as_fixed_size_list();
            let (first, length) = (lists.value_offset(0) as usize, (*length).max(0) as usize);
            bytes_of_column(&lists.values().slice(first, lists.len() * length)) + nulls
        }
        DataType::Map(..) => {
            let maps = column.as_map();
            let offsets = maps.value_offsets();
            let entries = Arc::new(maps.entries().clone()) as ArrayRef;
            size_of_val(offsets) + of_elements(&entries, offsets) + nulls
        }
        DataType::Struct(_) => {
            column.as_struct().columns().iter().map(bytes_of_column).sum::<usize>() + nulls
        }
        DataType::Dictionary(keys, _) => {
            let values = column.as_any_dictionary().values();
            column.len() * keys.primitive_width().unwrap_or(size_of::<u64>())
                + bytes_of_column(values)
                + nulls
        }
        DataType::Union(..) | DataType::RunEndEncoded(..) => column.get_buffer_memory_size(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_buffer_memory_size()),
    }
}

fn of_views<T: ByteViewType + ?Sized>(column: &GenericByteViewArray<T>) -> usize {
    let viewed: usize =
        column.lengths().filter(|length| *length > INLINE_BYTES_MAX).map(|length| length as usize).sum();
    let held = column.data_buffers().iter().map(|buffer| buffer.len()).sum();
    size_of_val(&**column.views()) + viewed.min(held)
}

fn of_lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> usize {
    size_of_val(lists.value_offsets()) + of_elements(lists.values(), lists.value_offsets())
}

/// The bytes of the elements between the first offset and the last.
fn of_elements<O: OffsetSizeTrait>(elements: &ArrayRef, offsets: &[O]) -> usize {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return 0 };
    let (first, last) = (first.as_usize(), last.as_usize());
    bytes_of_column(&elements.slice(first, last - first))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{Int32Array, Int64Array, ListArray, StringArray, StringViewArray, StructArray};
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn views_count_their_texts_once() {
        let long = "x".repeat(1000);
        let one = Arc::new(StringViewArray::from(vec![long.as_str(); 1])) as ArrayRef;
        assert_eq!(bytes_of_column(&one), 1016);
        // Ten views of one text.
        let places = Int32Array::from(vec![0; 10]);
        let ten = arrow_select::take::take(&one, &places, None).unwrap();
        assert_eq!(bytes_of_column(&ten), 10 * 16 + 1000);
        let ten = Arc::new(StringViewArray::from(vec![long.as_str(); 10])) as ArrayRef;
        assert_eq!(bytes_of_column(&ten), 10 * 1016);
        assert_eq!(bytes_of_column(&ten.slice(3, 2)), 2 * 1016);
    }

    #[test]
    fn a_slice_of_lists_counts_its_own_elements() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
            [10, 1000, 3].map(|length| Some((0..length).map(Some).collect::<Vec<_>>())),
        );
        let lists = Arc::new(lists) as ArrayRef;
        let nulls = |rows: usize| if lists.nulls().is_some() { rows.div_ceil(8) } else { 0 };
        let of_elements = |count: usize| {
            count * 8 + if lists.as_list::<i32>().values().nulls().is_some() { count.div_ceil(8) } else { 0 }
        };
        assert_eq!(bytes_of_column(&lists), 4 * 4 + of_elements(1013) + nulls(3));
        assert_eq!(bytes_of_column(&lists.slice(2, 1)), 2 * 4 + of_elements(3) + nulls(1));
        let field =
            |name: &str, column: &ArrayRef| Arc::new(Field::new(name, column.data_type().clone(), true));
        let numbers = Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
        let both = StructArray::from(vec![
            (field("l", &lists), Arc::clone(&lists)),
            (field("n", &numbers), numbers),
        ]);
        let both = Arc::new(both.slice(0, 1)) as ArrayRef;
        assert_eq!(bytes_of_column(&both), 2 * 4 + of_elements(10) + nulls(1) + 8);
    }

    #[test]
    fn other_columns_are_as_arrow_counts_them() {
        for column in [
            Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
            Arc::new(StringArray::from(vec!["a", "bcd", ""])) as ArrayRef,
        ] {
            assert_eq!(bytes_of_column(&column), column.to_data().get_slice_memory_size().unwrap());
        }
    }
}
