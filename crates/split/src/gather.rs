//! Gathering: new columns from chosen rows of old ones, one pass per column.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, UInt32Array, cast::AsArray, downcast_primitive,
};
use arrow_buffer::ScalarBuffer;

/// Chosen rows of batches, in an order of their own.
pub struct Gather<'a> {
    rows: &'a [u32],
    /// The first row, if all others follow it one by one: nothing need be copied then.
    first: Option<usize>,
    /// The rows as Arrow wants them, made for the first column that needs it.
    indices: OnceCell<UInt32Array>,
}

impl<'a> Gather<'a> {
    /// These rows, in this order.
    pub fn new(rows: &'a [u32]) -> Self {
        let follow = rows.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let first = rows.first().filter(|_| follow).map(|first| *first as usize);
        Gather { rows, first, indices: OnceCell::new() }
    }

    /// The values of a column of any type.
    pub fn column(&self, column: &ArrayRef) -> ArrayRef {
        if let Some(first) = self.first {
            return column.slice(first, self.rows.len());
        }
        if column.null_count() == 0 {
            // As fast as Arrow's own for many rows, faster for few.
            macro_rules! primitive {
                ($type:ty) => {
                    return self.primitive::<$type>(column)
                };
            }
            downcast_primitive!(column.data_type() => (primitive), _ => {});
        }
        let indices = self.indices.get_or_init(|| UInt32Array::from(self.rows.to_vec()));
        arrow_select::take::take(column, indices, None).expect("the rows are within the column, of any type")
    }

    fn primitive<T: ArrowPrimitiveType>(&self, column: &ArrayRef) -> ArrayRef {
        let gathered = values(column.as_primitive::<T>().values(), self.rows);
        let gathered = PrimitiveArray::<T>::new(ScalarBuffer::from(gathered), None);
        // Its zone, or its precision and scale.
        Arc::new(gathered.with_data_type(column.data_type().clone()))
    }

    /// The values of a buffer; none of an empty one, which stands for a column that is not there.
    pub fn buffer(&self, buffer: &ScalarBuffer<u32>) -> ScalarBuffer<u32> {
        match self.first {
            _ if buffer.is_empty() => buffer.clone(),
            Some(first) => buffer.slice(first, self.rows.len()),
            None => values(buffer, self.rows).into(),
        }
    }
}

/// `values[row]` for each row.
pub fn values<V: Copy>(values: &[V], rows: &[u32]) -> Vec<V> {
    fetch(values, rows.len());
    map_values(values, rows, |value| value)
}

/// Brings values into the processor's nearest memory, if many of them are wanted: one after the other they come much
/// faster than here and there.
fn fetch<V: Copy>(values: &[V], wanted: usize) {
    const LINE_BYTES: usize = 64;
    let step = (LINE_BYTES / size_of::<V>().max(1)).max(1);
    if wanted >= values.len() / step {
        values.iter().step_by(step).for_each(|value| {
            std::hint::black_box(*value);
        });
    }
}

/// `map(values[row])` for each row.
pub(crate) fn map_values<V: Copy>(values: &[V], rows: &[u32], map: impl Fn(V) -> V) -> Vec<V> {
    rows.iter().map(|row| map(values[*row as usize])).collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int8Type;
    use arrow_array::*;

    use super::*;

    #[test]
    fn columns_of_all_types_are_gathered_as_arrow_does() {
        let some = |n: i64| (n % 3 != 1).then_some(n);
        let text = |n: i64| some(n).map(|n| format!("a word of more than twelve letters {n}"));
        let words: Vec<Option<String>> = (0..9).map(text).collect();
        let decimals = Decimal128Array::from_iter_values((0..9).map(i128::from));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from_iter_values(0..9)),
            Arc::new(Int64Array::from_iter((0..9).map(some))),
            Arc::new(Float32Array::from_iter_values((0..9).map(|n| n as f32))),
            Arc::new(TimestampNanosecondArray::from_iter_values(0..9).with_timezone("Europe/Zurich")),
            Arc::new(Date32Array::from_iter_values(0..9)),
            Arc::new(decimals.with_precision_and_scale(11, 3).unwrap()),
            Arc::new(BooleanArray::from_iter((0..9).map(|n| some(n).map(|n| n > 4)))),
            Arc::new(StringArray::from(words.clone())),
            Arc::new(StringViewArray::from_iter(words.clone())),
            Arc::new(words.iter().map(Option::as_deref).collect::<DictionaryArray<Int8Type>>()),
            Arc::new(NullArray::new(9)),
        ];
        for rows in [vec![], vec![4], vec![2, 3, 4], vec![3, 2], vec![8, 0, 0, 7, 5]] {
            let gather = Gather::new(&rows);
            for column in &columns {
                let expected =
                    arrow_select::take::take(column, &UInt32Array::from(rows.clone()), None).unwrap();
                assert_eq!(&gather.column(column), &expected, "{rows:?} of {}", column.data_type());
            }
            let buffer: ScalarBuffer<u32> = (10..19).collect();
            assert_eq!(
                gather.buffer(&buffer),
                rows.iter().map(|row| row + 10).collect::<ScalarBuffer<u32>>()
            );
        }
    }
}
