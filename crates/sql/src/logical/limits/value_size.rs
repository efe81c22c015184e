//! How large values are: an array counts its elements, a text its bytes, anything else one. What is empty or NULL counts
//! one as well, since each copy of it takes some bytes.

use datafusion::arrow::array::{Array, AsArray, OffsetSizeTrait, make_array};
use datafusion::arrow::datatypes::DataType;

/// The size of each value.
pub(super) fn sizes(values: &dyn Array) -> Vec<u64> {
    let text = |length: usize| (length as u64).max(1);
    match values.data_type() {
        DataType::Utf8 => lengths(values.as_string::<i32>().value_offsets()).map(text).collect(),
        DataType::LargeUtf8 => lengths(values.as_string::<i64>().value_offsets()).map(text).collect(),
        DataType::Binary => lengths(values.as_binary::<i32>().value_offsets()).map(text).collect(),
        DataType::LargeBinary => lengths(values.as_binary::<i64>().value_offsets()).map(text).collect(),
        DataType::Utf8View => values.as_string_view().lengths().map(|length| text(length as usize)).collect(),
        DataType::BinaryView => {
            values.as_binary_view().lengths().map(|length| text(length as usize)).collect()
        }
        DataType::FixedSizeBinary(width) => vec![text(*width as usize); values.len()],
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..) => {
            of_lists(values, sizes).into_iter().map(|size| size + 1).collect()
        }
        DataType::Struct(_) => {
            let mut made = vec![1; values.len()];
            for column in values.as_struct().columns() {
                made.iter_mut().zip(sizes(column.as_ref())).for_each(|(made, size)| *made += size);
            }
            made
        }
        DataType::Dictionary(..) => {
            let dictionary = values.as_any_dictionary();
            let known = sizes(dictionary.values().as_ref());
            let keys = dictionary.normalized_keys();
            keys.into_iter().map(|key| known.get(key).copied().unwrap_or(1)).collect()
        }
        _ => vec![1; values.len()],
    }
}

/// The number of elements of each array, those of arrays within it included; one for anything else.
pub(crate) fn elements(values: &dyn Array) -> Vec<u64> {
    match values.data_type() {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            of_lists(values, elements)
        }
        _ => vec![1; values.len()],
    }
}

/// For each list the sum of what its elements have.
fn of_lists(values: &dyn Array, measure: fn(&dyn Array) -> Vec<u64>) -> Vec<u64> {
    match values.data_type() {
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            sums(lists.values().as_ref(), lists.value_offsets(), measure)
        }
        DataType::LargeList(_) => {
            let lists = values.as_list::<i64>();
            sums(lists.values().as_ref(), lists.value_offsets(), measure)
        }
        DataType::Map(..) => {
            let maps = values.as_map();
            sums(maps.entries(), maps.value_offsets(), measure)
        }
        DataType::FixedSizeList(_, length) => {
            let length = (*length).max(0);
            let offsets: Vec<i64> = (0..=values.len() as i64).map(|row| row * i64::from(length)).collect();
            sums(values.as_fixed_size_list().values().as_ref(), &offsets, measure)
        }
        _ => vec![1; values.len()],
    }
}

fn sums<O: OffsetSizeTrait>(
    inner: &dyn Array,
    offsets: &[O],
    measure: fn(&dyn Array) -> Vec<u64>,
) -> Vec<u64> {
    // What counts one needs no list of its ones.
    if is_one_each(inner.data_type()) {
        return lengths(offsets).map(|length| length as u64).collect();
    }
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Vec::new() };
    let (first, last) = (first.as_usize(), last.as_usize());
    let inner = measure(make_array(inner.to_data().slice(first, last - first)).as_ref());
    let mut start = 0;
    let sum = |length: usize| {
        let sum = inner[start..start + length].iter().sum();
        start += length;
        sum
    };
    lengths(offsets).map(sum).collect()
}

fn is_one_each(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null)
}

fn lengths<O: OffsetSizeTrait>(offsets: &[O]) -> impl Iterator<Item = usize> {
    offsets.windows(2).map(|ends| ends[1].as_usize() - ends[0].as_usize())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, ListArray, StringArray, StructArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::{Field, Int64Type};

    use super::*;

    #[test]
    fn a_value_counts_what_it_holds() {
        let words: ArrayRef = Arc::new(StringArray::from(vec![Some("abc"), Some(""), None, Some("ü")]));
        assert_eq!(sizes(words.as_ref()), [3, 1, 1, 2]);
        let numbers: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![]),
        ]));
        assert_eq!(sizes(numbers.as_ref()), [3, 1, 1]);
        assert_eq!(elements(numbers.as_ref()), [2, 0, 0]);
        // [[abc, ''], [NULL, ü]], of which the second stands in a slice.
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let lists: ArrayRef = Arc::new(ListArray::new(
            Arc::clone(&item),
            OffsetBuffer::from_lengths([2, 2]),
            Arc::clone(&words),
            None,
        ));
        assert_eq!(sizes(lists.as_ref()), [5, 4]);
        assert_eq!(sizes(lists.slice(1, 1).as_ref()), [4]);
        let outer = Arc::new(Field::new_list_field(lists.data_type().clone(), true));
        let nested = ListArray::new(outer, OffsetBuffer::from_lengths([2]), Arc::clone(&lists), None);
        assert_eq!((sizes(&nested), elements(&nested)), (vec![10], vec![4]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
        let fields = [
            (Arc::new(Field::new("n", DataType::Int64, true)), number),
            (Arc::new(Field::new("l", lists.data_type().clone(), true)), lists),
        ];
        assert_eq!(sizes(&StructArray::from(fields.to_vec())), [7, 6]);
    }
}
