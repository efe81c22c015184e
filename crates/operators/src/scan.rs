//! A state for each key, and a function that a program writes.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::output::Port;
use tidemill_core::{Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter, State};

use crate::groups::too_many_groups;
use crate::keys::KeyTable;

const SNAPSHOT_VERSION: u8 = 1;

/// The rows that the function of a [`Scan`] is given, with the state of each row's key.
pub struct KeyedRows<'a, S> {
    /// The rows, in their order.
    pub rows: &'a RecordBatch,
    /// The position of each row.
    pub positions: &'a [u32],
    /// The number of each row's key.
    pub keys: &'a [u32],
    /// The state of each key, by its number.
    pub states: &'a mut [S],
}

/// Keeps a state for each key, and calls a function with rows and states. What the function writes is the output.
///
/// Equal keys have one state: NULL equals NULL, 0.0 equals -0.0, and NaN equals NaN. The state of a key begins as
/// [`Default`] says, and stays for as long as the query runs.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray, cast::AsArray, types::UInt64Type};
/// use arrow_schema::{DataType, Field, Schema};
/// use tidemill_core::{Batch, Operator, Output};
/// use tidemill_operators::scan::{KeyedRows, Scan};
///
/// let words = Arc::new(StringArray::from(vec!["to", "be", "to"])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("word", words)]).unwrap();
/// let mut count = Scan::new(&rows.schema(), &[0], 1000, |rows: KeyedRows<'_, u64>, output| {
///     for (key, position) in rows.keys.iter().zip(rows.positions) {
///         let count = &mut rows.states[*key as usize];
///         *count += 1;
///         output.push(*position, (*count,));
///     }
///     Ok(())
/// })
/// .unwrap();
/// let mut output = Output::new(&[Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]))]);
/// count.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// let counts = output.finish(0).unwrap().rows;
/// assert_eq!(counts.column(0).as_primitive::<UInt64Type>().values(), &[1, 1, 2]);
/// ```
pub struct Scan<S, F> {
    keys: KeyTable,
    key_columns: Vec<usize>,
    keys_max: usize,
    states: Vec<S>,
    function: F,
}

impl<S, F> Scan<S, F>
where
    S: State + Default,
    F: FnMut(KeyedRows<'_, S>, &mut Port) -> Result<(), Cause> + Send,
{
    /// Without any key yet, and with at most `keys_max` later on.
    ///
    /// # Errors
    /// If a column cannot be a key.
    pub fn new(
        input: &SchemaRef,
        key_columns: &[usize],
        keys_max: usize,
        function: F,
    ) -> Result<Self, Cause> {
        Ok(Scan {
            keys: KeyTable::new(input, key_columns, true)?,
            key_columns: key_columns.to_vec(),
            keys_max,
            states: Vec::new(),
            function,
        })
    }
}

impl<S, F> Operator for Scan<S, F>
where
    S: State + Default,
    F: FnMut(KeyedRows<'_, S>, &mut Port) -> Result<(), Cause> + Send,
{
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let keys = self.keys.intern(&batch, &self.key_columns)?;
        if self.keys.len() > self.keys_max {
            return Err(too_many_groups(self.keys_max));
        }
        self.states.resize_with(self.keys.len(), S::default);
        let rows =
            KeyedRows { rows: &batch, positions: rows.positions(), keys: &keys, states: &mut self.states };
        (self.function)(rows, output.port(0))
    }

    fn state_bytes(&self) -> usize {
        self.keys.bytes() + self.states.capacity() * size_of::<S>()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        self.keys.snapshot(writer);
        self.states.iter().for_each(|state| state.write(writer));
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        self.keys.restore(reader)?;
        // Without key columns there is one key from the start, but its state comes with the first row.
        let has_states = !self.key_columns.is_empty() || !reader.is_empty();
        let states = if has_states { self.keys.len() } else { 0 };
        self.states = (0..states).map(|_| S::read(reader)).collect::<Result<_, _>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, cast::AsArray, types::Int64Type};
    use arrow_schema::{DataType, Field, Schema};
    use tidemill_core::Batch;

    use tidemill_core::Fault;

    use super::*;

    fn rows(keys: &[Option<f64>], values: &[i64]) -> Batch {
        let keys = Arc::new(Float64Array::from(keys.to_vec())) as ArrayRef;
        let values = Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let positions = (0..values.len() as u32).collect::<Vec<_>>();
        Batch::from_source(
            RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("v", values, true)]).unwrap(),
            positions.into(),
        )
    }

    fn sums(key_columns: &[usize], keys_max: usize) -> impl Operator + use<> {
        Scan::new(
            &rows(&[], &[]).rows.schema(),
            key_columns,
            keys_max,
            |rows: KeyedRows<'_, i64>, port: &mut Port| {
                let values = rows.rows.column(1).as_primitive::<Int64Type>();
                for (row, key) in rows.keys.iter().enumerate() {
                    let sum = &mut rows.states[*key as usize];
                    *sum += values.value(row);
                    port.push(rows.positions[row], (*sum,));
                }
                Ok(())
            },
        )
        .unwrap()
    }

    fn output_of(operator: &mut impl Operator, input: &Batch) -> Result<Vec<i64>, Cause> {
        let schema = Arc::new(Schema::new(vec![Field::new("sum", DataType::Int64, false)]));
        let mut output = Output::new(&[schema]);
        operator.rows(0, input.as_rows(), &mut output)?;
        let sums = output.finish(0).map(|batch| batch.rows.column(0).to_owned());
        Ok(sums.map_or(vec![], |sums| sums.as_primitive::<Int64Type>().values().to_vec()))
    }

    fn restored(of: &impl Operator, into: &mut impl Operator) {
        let mut writer = SnapshotWriter::default();
        of.snapshot(&mut writer);
        let bytes = writer.finish();
        into.restore(&mut SnapshotReader::new(&bytes).unwrap()).unwrap();
    }

    #[test]
    fn equal_keys_share_a_state() {
        let input =
            rows(&[Some(0.0), None, Some(-0.0), Some(f64::NAN), None, Some(f64::NAN)], &[1, 2, 3, 4, 5, 6]);
        assert_eq!(output_of(&mut sums(&[0], 10), &input).unwrap(), [1, 2, 4, 4, 7, 10]);
    }

    #[test]
    fn a_snapshot_holds_keys_and_states() {
        for keys in [vec![0], vec![], vec![0, 1]] {
            let mut before = sums(&keys, 10);
            let mut untouched = sums(&keys, 10);
            restored(&before, &mut untouched);
            let input = rows(&[Some(1.0), Some(2.0), None], &[7, 7, 7]);
            let first = output_of(&mut before, &input).unwrap();
            assert_eq!(output_of(&mut untouched, &input).unwrap(), first);
            let mut after = sums(&keys, 10);
            restored(&before, &mut after);
            assert_eq!(output_of(&mut after, &input).unwrap(), output_of(&mut before, &input).unwrap());
        }
    }

    #[test]
    fn too_many_keys_are_refused() {
        let input = rows(&[Some(1.0), Some(2.0), Some(3.0)], &[1, 1, 1]);
        let refused = output_of(&mut sums(&[0], 2), &input).unwrap_err();
        assert!(refused.fault == Fault::Resource, "{refused}");
    }
}
