//! Rows of a partition that lie in two batches: those that it shares with other partitions, and its own.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use arrow_schema::DataType;

/// The rows of one side, with the position of each.
#[derive(Clone, Debug)]
pub struct Side {
    /// The columns.
    pub rows: RecordBatch,
    /// The position of each row within the cycle.
    pub positions: ScalarBuffer<u32>,
}

/// Shared and own rows in their order. A column is merged when it is read for the first time: what an operator does not
/// read costs nothing.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::{MergedRows, Side};
/// use tidemill_core::arrow::array::{RecordBatch, UInt32Array};
///
/// let side = |numbers: Vec<u32>| {
///     let column = Arc::new(UInt32Array::from(numbers.clone())) as _;
///     Side { rows: RecordBatch::try_from_iter([("number", column)]).unwrap(), positions: numbers.into() }
/// };
/// // One shared row comes before the first own row, and two before the second.
/// let merged = MergedRows::new(side(vec![1, 4, 5]), side(vec![3, 6]), vec![1, 3].into());
/// assert_eq!(merged.positions(), &[1, 3, 4, 5, 6]);
/// ```
#[derive(Debug)]
pub struct MergedRows {
    shared: Side,
    own: Side,
    /// For each own row, how many shared rows come before it.
    preceding: ScalarBuffer<u32>,
    columns: Vec<OnceCell<ArrayRef>>,
    positions: OnceCell<Vec<u32>>,
    /// The batch and the row in it of each row, for columns that are not plain values.
    origins: OnceCell<Vec<(usize, usize)>>,
}

impl MergedRows {
    /// Merges own rows into shared ones: `preceding[i]` of them come before own row `i`.
    pub fn new(shared: Side, own: Side, preceding: ScalarBuffer<u32>) -> Self {
        debug_assert!(preceding.is_sorted() && preceding.len() == own.positions.len());
        let columns = (0..shared.rows.num_columns()).map(|_| OnceCell::new()).collect();
        MergedRows { shared, own, preceding, columns, positions: OnceCell::new(), origins: OnceCell::new() }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.shared.positions.len() + self.own.positions.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of each row.
    pub fn positions(&self) -> &[u32] {
        self.positions.get_or_init(|| self.merged(&self.shared.positions, &self.own.positions))
    }

    /// A column.
    pub(crate) fn column(&self, index: usize) -> &ArrayRef {
        let merge = || self.merged_column(self.shared.rows.column(index), self.own.rows.column(index));
        self.columns[index].get_or_init(merge)
    }

    /// All columns.
    pub(crate) fn to_batch(&self) -> RecordBatch {
        let columns = (0..self.columns.len()).map(|index| Arc::clone(self.column(index))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        RecordBatch::try_new_with_options(self.shared.rows.schema(), columns, &options)
            .expect("merging keeps types and gives equal lengths")
    }

    fn merged_column(&self, shared: &ArrayRef, own: &ArrayRef) -> ArrayRef {
        if own.is_empty() {
            return Arc::clone(shared);
        }
        match plain_width(shared).filter(|_| plain_width(own).is_some()) {
            Some(1) => self.plain_column::<u8>(shared, own),
            Some(2) => self.plain_column::<u16>(shared, own),
            Some(4) => self.plain_column::<u32>(shared, own),
            Some(8) => self.plain_column::<u64>(shared, own),
            Some(16) => self.plain_column::<u128>(shared, own),
            _ => arrow_select::interleave::interleave(&[shared, own], self.origins())
                .expect("the rows of a partition fit one batch of their schema"),
        }
    }

    /// A column that is nothing but values of this width.
    fn plain_column<V: ArrowNativeType>(&self, shared: &ArrayRef, own: &ArrayRef) -> ArrayRef {
        let values = self.merged(&values::<V>(shared), &values::<V>(own));
        let data = shared.to_data().into_builder().offset(0).len(values.len());
        let data = data.buffers(vec![Buffer::from_vec(values)]).build();
        make_array(data.expect("values of the type's width"))
    }

    /// Whole runs of shared values are copied at once.
    fn merged<V: Copy>(&self, shared: &[V], own: &[V]) -> Vec<V> {
        let mut to = Vec::with_capacity(shared.len() + own.len());
        let mut start = 0;
        for (value, end) in own.iter().zip(&self.preceding) {
            let end = *end as usize;
            to.extend_from_slice(&shared[start..end]);
            to.push(*value);
            start = end;
        }
        to.extend_from_slice(&shared[start..]);
        to
    }

    fn origins(&self) -> &[(usize, usize)] {
        let side = |side: usize, rows: &Side| (0..rows.positions.len()).map(|row| (side, row)).collect();
        self.origins.get_or_init(|| {
            let (shared, own): (Vec<_>, Vec<_>) = (side(0, &self.shared), side(1, &self.own));
            self.merged(&shared, &own)
        })
    }
}

/// The bytes of a value, if a column is nothing but values aligned by their width.
fn plain_width(column: &ArrayRef) -> Option<usize> {
    let is_plain = column.null_count() == 0 && !matches!(column.data_type(), DataType::Interval(_));
    column.data_type().primitive_width().filter(|_| is_plain)
}

fn values<V: ArrowNativeType>(column: &ArrayRef) -> ScalarBuffer<V> {
    let data = column.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}
