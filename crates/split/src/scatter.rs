//! Scattering: the rows of columns to new places, two columns in one pass.
//!
//! Values are read one after the other and written here and there, for that is what a processor does best: reads are
//! foreseen, and no one waits for writes.

use std::cell::OnceCell;

use arrow_array::{Array, ArrayRef, UInt32Array, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

/// Copies of rows, and the place of each.
pub struct Scatter<'a> {
    /// Each number below their count once.
    places: &'a [u32],
    /// Which row each copy is of; `None`: copy `i` is of row `i`.
    rows: Option<&'a [u32]>,
    /// The row at each place as Arrow wants them, made for the first column that needs it.
    indices: OnceCell<UInt32Array>,
}

impl<'a> Scatter<'a> {
    /// Copy `i`, of row `rows[i]` or else `i`, goes to `places[i]`; each place below their count is taken once.
    ///
    /// ```
    /// use arrow_buffer::ScalarBuffer;
    /// use tidemill_split::scatter::Scatter;
    /// let letters: ScalarBuffer<u32> = vec![7, 8, 9].into();
    /// assert_eq!(*Scatter::new(&[2, 0, 1], None).buffer(&letters), [8, 9, 7]);
    /// assert_eq!(*Scatter::new(&[1, 0], Some(&[0, 2])).buffer(&letters), [9, 7]);
    /// ```
    pub fn new(places: &'a [u32], rows: Option<&'a [u32]>) -> Self {
        Scatter { places, rows, indices: OnceCell::new() }
    }

    /// Columns of any types.
    pub fn columns(&self, columns: &[&ArrayRef]) -> Vec<ArrayRef> {
        let mut made: Vec<Option<ArrayRef>> = vec![None; columns.len()];
        self.flat::<u8>(columns, &mut made);
        self.flat::<u16>(columns, &mut made);
        self.flat::<u32>(columns, &mut made);
        self.flat::<u64>(columns, &mut made);
        self.flat::<u128>(columns, &mut made);
        let made = made.into_iter().zip(columns);
        made.map(|(made, column)| made.unwrap_or_else(|| self.other(column))).collect()
    }

    /// The values of a buffer; none of an empty one, which stands for a column that is not there.
    pub fn buffer(&self, buffer: &ScalarBuffer<u32>) -> ScalarBuffer<u32> {
        self.buffer_plus(buffer, 0)
    }

    /// The same, with something added to each value.
    pub fn buffer_plus(&self, buffer: &ScalarBuffer<u32>, added: u32) -> ScalarBuffer<u32> {
        match buffer.is_empty() {
            true => buffer.clone(),
            false => self.one(buffer, |value| value + added).into(),
        }
    }

    /// Makes the columns that are values of this width one after the other, and nothing else.
    fn flat<V: ArrowNativeType>(&self, columns: &[&ArrayRef], made: &mut [Option<ArrayRef>]) {
        let width = Some(size_of::<V>());
        let flat: Vec<usize> = (0..columns.len()).filter(|i| flat_width(columns[*i]) == width).collect();
        for pair in flat.chunks(2) {
            match *pair {
                [first, second] => {
                    let (a, b) = self.two(&values::<V>(columns[first]), &values::<V>(columns[second]));
                    made[first] = Some(flat_column(columns[first], a));
                    made[second] = Some(flat_column(columns[second], b));
                }
                [only] => {
                    made[only] = Some(flat_column(
                        columns[only],
                        self.one(&values::<V>(columns[only]), |value| value),
                    ));
                }
                _ => {}
            }
        }
    }

    fn one<V: ArrowNativeType>(&self, from: &[V], map: impl Fn(V) -> V) -> Vec<V> {
        let mut to = vec![V::default(); self.places.len()];
        match self.rows {
            None => from.iter().zip(self.places).for_each(|(value, place)| to[*place as usize] = map(*value)),
            Some(rows) => rows.iter().zip(self.places).for_each(|(row, place)| {
                to[*place as usize] = map(from[*row as usize]);
            }),
        }
        to
    }

    /// Faster than one after the other: a place is read and checked once for both.
    fn two<V: ArrowNativeType>(&self, from_a: &[V], from_b: &[V]) -> (Vec<V>, Vec<V>) {
        let length = self.places.len();
        let (mut a, mut b) = (vec![V::default(); length], vec![V::default(); length]);
        let (to_a, to_b) = (&mut a[..length], &mut b[..length]);
        match self.rows {
            None => {
                for ((value_a, value_b), place) in from_a.iter().zip(from_b).zip(self.places) {
                    to_a[*place as usize] = *value_a;
                    to_b[*place as usize] = *value_b;
                }
            }
            Some(rows) => {
                let from_b = &from_b[..from_a.len()];
                for (row, place) in rows.iter().zip(self.places) {
                    to_a[*place as usize] = from_a[*row as usize];
                    to_b[*place as usize] = from_b[*row as usize];
                }
            }
        }
        (a, b)
    }

    /// A column with nulls, or of a type that is no number.
    fn other(&self, column: &ArrayRef) -> ArrayRef {
        let indices = self.indices.get_or_init(|| {
            let rows = self.rows.map_or_else(|| (0..self.places.len() as u32).collect(), <[u32]>::to_vec);
            UInt32Array::from(Scatter::new(self.places, None).one(&rows, |row| row))
        });
        arrow_select::take::take(column, indices, None).expect("the rows are within the column, of any type")
    }
}

/// The bytes of a value, if a column is nothing but values that are aligned by their width.
fn flat_width(column: &ArrayRef) -> Option<usize> {
    let is_flat = column.null_count() == 0 && !matches!(column.data_type(), DataType::Interval(_));
    column.data_type().primitive_width().filter(|_| is_flat)
}

fn values<V: ArrowNativeType>(column: &ArrayRef) -> ScalarBuffer<V> {
    let data = column.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Values as a column of the same type, with its zone, or its precision and scale.
fn flat_column<V: ArrowNativeType>(like: &ArrayRef, values: Vec<V>) -> ArrayRef {
    let data = ArrayData::builder(like.data_type().clone()).len(values.len());
    make_array(data.add_buffer(Buffer::from_vec(values)).build().expect("values of the type's width"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::{Int8Type, IntervalDayTime};
    use arrow_array::*;

    use super::*;

    fn columns_of_nine_rows() -> Vec<ArrayRef> {
        let some = |n: i64| (n % 3 != 1).then_some(n);
        let text = |n: i64| some(n).map(|n| format!("a word of more than twelve letters {n}"));
        let words: Vec<Option<String>> = (0..9).map(text).collect();
        let decimals = Decimal128Array::from_iter_values((0..9).map(i128::from));
        let wide = Decimal256Array::from_iter_values((0..9).map(arrow_buffer::i256::from));
        let interval = |n| IntervalDayTime::new(n, -n);
        vec![
            Arc::new(Int8Array::from_iter_values(0..9)),
            Arc::new(Int64Array::from_iter((0..9).map(some))),
            Arc::new(Int64Array::from_iter_values(0..9)),
            Arc::new(UInt64Array::from_iter_values(0..10).slice(1, 9)),
            Arc::new(Float64Array::from_iter_values((0..9).map(f64::from))),
            Arc::new(Float32Array::from_iter_values((0..9).map(|n| n as f32))),
            Arc::new(UInt16Array::from_iter_values(0..9)),
            Arc::new(TimestampNanosecondArray::from_iter_values(0..9).with_timezone("Europe/Zurich")),
            Arc::new(Date32Array::from_iter_values(0..9)),
            Arc::new(IntervalDayTimeArray::from_iter_values((0..10).map(interval)).slice(1, 9)),
            Arc::new(decimals.with_precision_and_scale(11, 3).unwrap()),
            Arc::new(wide.with_precision_and_scale(50, 3).unwrap()),
            Arc::new(BooleanArray::from_iter((0..9).map(|n| some(n).map(|n| n > 4)))),
            Arc::new(StringArray::from(words.clone())),
            Arc::new(StringViewArray::from_iter(words.clone())),
            Arc::new(words.iter().map(Option::as_deref).collect::<DictionaryArray<Int8Type>>()),
            Arc::new(NullArray::new(9)),
        ]
    }

    #[test]
    fn columns_of_all_types_are_scattered_as_arrow_takes_them() {
        let columns = columns_of_nine_rows();
        let columns: Vec<&ArrayRef> = columns.iter().collect();
        let all: [u32; 9] = [3, 0, 8, 1, 2, 7, 4, 6, 5];
        let few: [(Vec<u32>, Vec<u32>); 4] =
            [(vec![], vec![]), (vec![4], vec![0]), (vec![8, 0, 0], vec![1, 2, 0]), (vec![2, 3], vec![0, 1])];
        let few = few.iter().map(|(rows, places)| (Some(rows.as_slice()), places.as_slice()));
        for (rows, places) in few.chain([(None, all.as_slice())]) {
            let mut row_at = vec![0; places.len()];
            for (copy, place) in places.iter().enumerate() {
                row_at[*place as usize] = rows.map_or(copy as u32, |rows| rows[copy]);
            }
            let indices = UInt32Array::from(row_at.clone());
            let scatter = Scatter::new(places, rows);
            for (column, made) in columns.iter().zip(scatter.columns(&columns)) {
                let expected = arrow_select::take::take(*column, &indices, None).unwrap();
                assert_eq!(&made, &expected, "{rows:?} to {places:?} of {}", column.data_type());
            }
            let buffer: ScalarBuffer<u32> = (10..19).collect();
            assert_eq!(
                scatter.buffer(&buffer),
                row_at.iter().map(|row| row + 10).collect::<ScalarBuffer<u32>>()
            );
        }
    }
}
