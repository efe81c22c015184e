//! Scattering: moves the rows of columns to new places, several columns in one pass.
//!
//! Values are read sequentially and written at random places, which suits processors best: they prefetch sequential
//! reads, and nothing waits for writes. Writing takes most of the time, so four columns of 4 bytes are written
//! together: as rows of 16 bytes, to memory that stays close to the processor, and from there sequentially into columns
//! again.

use std::cell::OnceCell;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use tidemill_core::Batch;
use wide::f32x4;

use crate::group::Destinations;

/// A row of four columns of 4 bytes, or four rows of one of them.
type Four = [u32; 4];

/// The memory that scattering needs, reused from one batch to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    fours: Vec<Four>,
}

/// Moves columns to the places of their rows.
pub struct Scatter<'a> {
    places: &'a Destinations,
    scratch: &'a mut Scratch,
    /// The row at each place, computed for the first column that needs it.
    rows: OnceCell<ScalarBuffer<u32>>,
}

/// From this many places per row on, rows are read at random places and written sequentially. Then so much more is
/// written than read that the output does not stay close to the processor.
const PLACES_PER_ROW_FOR_GATHERING: usize = 2;

impl<'a> Scatter<'a> {
    /// Moves rows to these places.
    ///
    /// ```
    /// use arrow_buffer::ScalarBuffer;
    /// use tidemill_split::{group::Destinations, scatter::{Scatter, Scratch}};
    /// let places = Destinations { of_rows: vec![2, 0, 1], count: 3, ..Destinations::default() };
    /// let letters: ScalarBuffer<u32> = vec![7, 8, 9].into();
    /// assert_eq!(*Scatter::new(&places, &mut Scratch::default()).buffer(&letters), [8, 9, 7]);
    /// ```
    pub fn new(places: &'a Destinations, scratch: &'a mut Scratch) -> Self {
        Scatter { places, scratch, rows: OnceCell::new() }
    }

    /// Moves all columns of a batch, with positions moved forward by `base`.
    pub fn batch(&mut self, batch: &Batch, base: u32) -> Batch {
        let columns = self.columns(batch.rows.columns());
        let options = RecordBatchOptions::new().with_row_count(Some(self.places.count as usize));
        let rows = RecordBatch::try_new_with_options(batch.rows.schema(), columns, &options)
            .expect("scattering keeps types and gives equal lengths");
        let positions = self.buffer_plus(&batch.positions, base);
        Batch { rows, positions, origins: self.buffer(&batch.origins) }
    }

    /// Moves columns of any types.
    pub fn columns(&mut self, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let mut made: Vec<Option<ArrayRef>> = vec![None; columns.len()];
        self.fours(columns, &mut made);
        self.flat::<u8>(columns, &mut made);
        self.flat::<u16>(columns, &mut made);
        self.flat::<u32>(columns, &mut made);
        self.flat::<u64>(columns, &mut made);
        self.flat::<u128>(columns, &mut made);
        let made = made.into_iter().zip(columns);
        made.map(|(made, column)| made.unwrap_or_else(|| self.other(column))).collect()
    }

    /// The values of a buffer; none for an empty buffer, which stands for a missing column.
    pub fn buffer(&self, buffer: &ScalarBuffer<u32>) -> ScalarBuffer<u32> {
        self.buffer_plus(buffer, 0)
    }

    /// The same, with a number added to each value.
    fn buffer_plus(&self, buffer: &ScalarBuffer<u32>, added: u32) -> ScalarBuffer<u32> {
        if buffer.is_empty() { buffer.clone() } else { self.one(buffer, |value| value + added).into() }
    }

    /// Makes columns of 4 bytes, four at a time; leaves up to three of them.
    fn fours(&mut self, columns: &[ArrayRef], made: &mut [Option<ArrayRef>]) {
        for four in missing::<u32>(columns, made).as_chunks::<4>().0 {
            let from = four.map(|column| values::<u32>(&columns[column]));
            let to = if self.is_gathered(from[0].len()) {
                self.gather_four(from.each_ref().map(|values| &values[..]))
            } else {
                self.scatter_four(from.each_ref().map(|values| &values[..]))
            };
            for (column, values) in four.iter().zip(to) {
                made[*column] = Some(flat_column(&columns[*column], values));
            }
        }
    }

    /// Makes the columns that consist of values of this width, one after the other.
    fn flat<V: ArrowNativeType>(&self, columns: &[ArrayRef], made: &mut [Option<ArrayRef>]) {
        for pair in missing::<V>(columns, made).chunks(2) {
            match *pair {
                [first, second] => {
                    let (a, b) = self.two(&values::<V>(&columns[first]), &values::<V>(&columns[second]));
                    made[first] = Some(flat_column(&columns[first], a));
                    made[second] = Some(flat_column(&columns[second], b));
                }
                [only] => {
                    made[only] = Some(flat_column(
                        &columns[only],
                        self.one(&values::<V>(&columns[only]), |value| value),
                    ));
                }
                _ => {}
            }
        }
    }

    fn one<V: ArrowNativeType>(&self, from: &[V], map: impl Fn(V) -> V) -> Vec<V> {
        if self.is_gathered(from.len()) {
            gather(from, self.rows(from.len()), map)
        } else {
            self.scatter(from, map)
        }
    }

    fn two<V: ArrowNativeType>(&self, from_a: &[V], from_b: &[V]) -> (Vec<V>, Vec<V>) {
        if self.is_gathered(from_a.len()) {
            (self.one(from_a, |value| value), self.one(from_b, |value| value))
        } else {
            self.scatter_two(from_a, from_b)
        }
    }

    fn is_gathered(&self, rows: usize) -> bool {
        self.places.count as usize > rows * PLACES_PER_ROW_FOR_GATHERING
    }

    fn scatter<V: ArrowNativeType>(&self, from: &[V], map: impl Fn(V) -> V) -> Vec<V> {
        let Destinations { of_rows, copied_rows, of_copies, .. } = self.places;
        let mut to = self.empty();
        for (value, place) in from.iter().zip(of_rows) {
            to[*place as usize] = map(*value);
        }
        for (row, place) in copied_rows.iter().zip(of_copies) {
            to[*place as usize] = map(from[*row as usize]);
        }
        self.filled(to)
    }

    /// Faster than one after the other, because a place is read and checked once for both.
    fn scatter_two<V: ArrowNativeType>(&self, from_a: &[V], from_b: &[V]) -> (Vec<V>, Vec<V>) {
        let Destinations { of_rows, copied_rows, of_copies, .. } = self.places;
        let (mut a, mut b) = (self.empty(), self.empty());
        let length = a.len();
        let (to_a, to_b) = (&mut a[..length], &mut b[..length]);
        for ((value_a, value_b), place) in from_a.iter().zip(from_b).zip(of_rows) {
            to_a[*place as usize] = *value_a;
            to_b[*place as usize] = *value_b;
        }
        let from_b = &from_b[..from_a.len()];
        for (row, place) in copied_rows.iter().zip(of_copies) {
            to_a[*place as usize] = from_a[*row as usize];
            to_b[*place as usize] = from_b[*row as usize];
        }
        (self.filled(a), self.filled(b))
    }

    /// A row of four values takes one write, where single values take four.
    fn scatter_four(&mut self, from: [&[u32]; 4]) -> [Vec<u32>; 4] {
        let Destinations { of_rows, copied_rows, of_copies, .. } = self.places;
        let count = self.places.count as usize;
        self.scratch.fours.resize(self.length().next_multiple_of(4), [0; 4]);
        let to = &mut self.scratch.fours[..];
        let (places, places_left) = of_rows.as_chunks::<4>();
        for (rows, places) in rows_of(from).zip(places) {
            for (row, place) in rows.into_iter().zip(places) {
                to[*place as usize] = row;
            }
        }
        for (row, place) in (of_rows.len() - places_left.len()..).zip(places_left) {
            to[*place as usize] = from.map(|column| column[row]);
        }
        for (row, place) in copied_rows.iter().zip(of_copies) {
            to[*place as usize] = from.map(|column| column[*row as usize]);
        }
        let rows = to[..count.next_multiple_of(4)].as_chunks::<4>().0;
        columns_of(rows.iter().map(<[Four; 4]>::each_ref)).map(|values| self.filled(values))
    }

    /// A row of four values takes one random read, where single values take four.
    fn gather_four(&mut self, from: [&[u32]; 4]) -> [Vec<u32>; 4] {
        let length = from[0].len();
        let order = self.rows(length).clone();
        let rows = &mut self.scratch.fours;
        rows.clear();
        rows.extend(rows_of(from).flatten());
        rows.extend((rows.len()..length).map(|row| from.map(|column| column[row])));
        let (order, order_left) = order.as_chunks::<4>();
        let mut last = [0; 4];
        last[..order_left.len()].copy_from_slice(order_left);
        let order = order.iter().chain((!order_left.is_empty()).then_some(&last));
        let four_rows = order.map(|order| order.each_ref().map(|row| &rows[*row as usize]));
        columns_of(four_rows).map(|values| self.filled(values))
    }

    /// A value for each place, and one for rows that go nowhere, if there are any.
    fn empty<V: ArrowNativeType>(&self) -> Vec<V> {
        vec![V::default(); self.length()]
    }

    fn length(&self) -> usize {
        let count = self.places.count as usize;
        count + usize::from(self.places.of_rows.len() + self.places.of_copies.len() > count)
    }

    fn filled<V>(&self, mut to: Vec<V>) -> Vec<V> {
        to.truncate(self.places.count as usize);
        to
    }

    /// A column that has nulls or a type that is not numeric.
    fn other(&self, column: &ArrayRef) -> ArrayRef {
        let indices = UInt32Array::new(self.rows(column.len()).clone(), None);
        arrow_select::take::take(column, &indices, None).expect("the rows are within the column, of any type")
    }

    /// The row at each place, for this many rows.
    fn rows(&self, rows: usize) -> &ScalarBuffer<u32> {
        self.rows.get_or_init(|| self.scatter(&(0..rows as u32).collect::<Vec<u32>>(), |row| row).into())
    }
}

/// The columns that are flat, have this width, and are not made yet.
fn missing<V>(columns: &[ArrayRef], made: &[Option<ArrayRef>]) -> Vec<usize> {
    let is_missing = |index: &usize| made[*index].is_none();
    let is_wanted = |index: &usize| is_missing(index) && flat_width(&columns[*index]) == Some(size_of::<V>());
    (0..columns.len()).filter(is_wanted).collect()
}

/// The first value of each, then the second of each...
#[inline(always)]
fn transpose(fours: [&Four; 4]) -> [Four; 4] {
    // Of floating-point numbers only the type is used: their bits move as they are.
    bytemuck::cast(f32x4::transpose(fours.map(|four| bytemuck::cast(*four))))
}

/// The rows of four columns, four at a time, without the remainder.
fn rows_of(columns: [&[u32]; 4]) -> impl Iterator<Item = [Four; 4]> {
    let [a, b, c, d] = columns.map(|column| column.as_chunks::<4>().0.iter());
    a.zip(b).zip(c).zip(d).map(|(((a, b), c), d)| transpose([a, b, c, d]))
}

/// The four columns of rows that come four at a time.
fn columns_of<'a>(rows: impl Iterator<Item = [&'a Four; 4]>) -> [Vec<u32>; 4] {
    let columns = rows.map(|rows| <(Four, Four, Four, Four)>::from(transpose(rows)));
    let (a, b, c, d): (Vec<_>, Vec<_>, Vec<_>, Vec<_>) = columns.collect();
    [a, b, c, d].map(Vec::into_flattened)
}

fn gather<V: ArrowNativeType>(from: &[V], rows: &[u32], map: impl Fn(V) -> V) -> Vec<V> {
    rows.iter().map(|row| map(from[*row as usize])).collect()
}

/// The bytes of a value, if a column is nothing but values aligned by their width.
fn flat_width(column: &ArrayRef) -> Option<usize> {
    let is_flat = column.null_count() == 0 && !matches!(column.data_type(), DataType::Interval(_));
    column.data_type().primitive_width().filter(|_| is_flat)
}

fn values<V: ArrowNativeType>(column: &ArrayRef) -> ScalarBuffer<V> {
    let data = column.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Values as a column of the same type, including its time zone, or its precision and scale.
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
        // As floating-point numbers these would be signalling ones that are none.
        let odd =
            [0x7f80_0001, 0xff80_0001, 0x7fbf_ffff, 0xffff_ffff, 0, 0x8000_0000, 1, 0xffbf_0000, 0x7fff_ffff];
        // Aligned as such a value must be, but not by its 16 bytes.
        let months = Buffer::from_vec((0..19_u64).collect::<Vec<_>>()).slice(8);
        let months = IntervalMonthDayNanoArray::new(ScalarBuffer::new(months, 0, 9), None);
        vec![
            Arc::new(Int8Array::from_iter_values(0..9)),
            Arc::new(Int64Array::from_iter((0..9).map(some))),
            Arc::new(Int64Array::from_iter_values(0..9)),
            Arc::new(UInt64Array::from_iter_values(0..10).slice(1, 9)),
            Arc::new(Float64Array::from_iter_values((0..9).map(f64::from))),
            Arc::new(Float32Array::from_iter_values((0..9).map(|n| n as f32))),
            Arc::new(UInt32Array::from(odd.to_vec())),
            Arc::new(Int32Array::from_iter_values(-5..5).slice(1, 9)),
            Arc::new(Int32Array::from_iter((0..9).map(|n| some(n).map(|n| n as i32)))),
            Arc::new(Time32SecondArray::from_iter_values(10..19)),
            Arc::new(UInt16Array::from_iter_values(0..9)),
            Arc::new(TimestampNanosecondArray::from_iter_values(0..9).with_timezone("Europe/Zurich")),
            Arc::new(Date32Array::from_iter_values(0..9)),
            Arc::new(IntervalDayTimeArray::from_iter_values((0..10).map(interval)).slice(1, 9)),
            Arc::new(months),
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
        let numbers = |numbers: &[u32]| numbers.to_vec();
        let places = |of_rows: &[u32], copied_rows: &[u32], of_copies: &[u32], count| {
            let (of_rows, copied_rows) = (numbers(of_rows), numbers(copied_rows));
            Destinations { of_rows, copied_rows, of_copies: numbers(of_copies), count, runs: Vec::new() }
        };
        let cases = [
            places(&[3, 0, 8, 1, 2, 7, 4, 6, 5], &[], &[], 9),
            // Row 4 to three places, rows 0 and 8 nowhere.
            places(&[9, 1, 2, 0, 8, 3, 7, 4, 9], &[4, 4], &[5, 6], 9),
            places(&[], &[0, 0, 8], &[2, 1, 0], 3),
            // Enough copies that rows are gathered.
            places(&[18, 17, 16, 15, 14, 13, 12, 11, 10], &[7; 10], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 19),
            places(&[0; 9], &[], &[], 0),
            places(&[], &[], &[], 0),
        ];
        for places in &cases {
            let mut row_at = vec![0; places.count as usize];
            let own = (0..).zip(&places.of_rows).filter(|(_, place)| **place < places.count);
            for (row, place) in own.chain(places.copied_rows.iter().copied().zip(&places.of_copies)) {
                row_at[*place as usize] = row;
            }
            let indices = UInt32Array::from(row_at.clone());
            let mut scratch = Scratch::default();
            let mut scatter = Scatter::new(places, &mut scratch);
            for (column, made) in columns.iter().zip(scatter.columns(&columns)) {
                let expected = arrow_select::take::take(column, &indices, None).unwrap();
                assert_eq!(&made, &expected, "{places:?} of {}", column.data_type());
            }
            let buffer: ScalarBuffer<u32> = (10..19).collect();
            assert_eq!(
                scatter.buffer(&buffer),
                row_at.iter().map(|row| row + 10).collect::<ScalarBuffer<u32>>()
            );
        }
    }
}
