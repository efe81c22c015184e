//! A function that keeps a state for each key as columns, such as one whose code is loaded.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::output::Port;
use tidemill_core::{Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::Groups;
use crate::groups::too_many_groups;
use crate::state_rows::batch;
use crate::stored_rows::{read_rows, write_rows};

const SNAPSHOT_VERSION: u8 = 1;
/// Below this number of forgotten keys, they are not worth being removed.
const FORGOTTEN_MIN: usize = 1024;

/// A function that takes rows with the numbers of their keys, and keeps the states of keys as columns.
pub trait KeyedFunction: Send {
    /// Makes room for the keys `0..keys`; new ones have no state.
    fn resize(&mut self, keys: usize);

    /// Takes rows: row `i` has the key `keys[i]`. What it writes is the output.
    ///
    /// # Errors
    /// An error stops the query.
    fn rows(
        &mut self,
        rows: &RecordBatch,
        positions: &[u32],
        keys: &[u32],
        output: &mut Port,
    ) -> Result<(), Cause>;

    /// How many keys have a state.
    fn used(&self) -> usize;

    /// Whether a key has a state.
    fn is_used(&self, key: u32) -> bool;

    /// Keeps the states of these keys, whose numbers ascend, and forgets the others. The first of them becomes key 0.
    fn keep(&mut self, keys: &[u32]);

    /// The states of keys, a row for each.
    ///
    /// # Errors
    /// If they are too large for a column.
    fn states(&self, keys: &[u32]) -> Result<Vec<ArrayRef>, Cause>;

    /// Sets the states of keys to what [`states`](KeyedFunction::states) gave.
    ///
    /// # Errors
    /// If the columns have other types.
    fn restore(&mut self, keys: &[u32], states: &[ArrayRef]) -> Result<(), Cause>;

    /// The memory that the states take.
    fn bytes(&self) -> usize;
}

/// Gives the rows of each key to a [`KeyedFunction`].
///
/// Equal keys have one state: NULL equals NULL, 0.0 equals -0.0, and NaN equals NaN. A key that loses its state is
/// forgotten at the end of a cycle.
///
/// ```
/// use tidemill_core::output::Port;
/// use tidemill_core::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::Cause;
/// use tidemill_operators::{KeyedFunction, KeyedRows};
///
/// /// The first row of each key.
/// struct First(Vec<bool>);
///
/// impl KeyedFunction for First {
///     fn resize(&mut self, keys: usize) {
///         self.0.resize(keys, false);
///     }
///     fn rows(&mut self, rows: &RecordBatch, positions: &[u32], keys: &[u32], output: &mut Port) -> Result<(), Cause> {
///         for (row, key) in keys.iter().enumerate() {
///             if !std::mem::replace(&mut self.0[*key as usize], true) {
///                 output.push_batch(rows.slice(row, 1), &positions[row..=row])?;
///             }
///         }
///         Ok(())
///     }
///     fn used(&self) -> usize {
///         self.0.len()
///     }
///     fn is_used(&self, key: u32) -> bool {
///         self.0[key as usize]
///     }
///     fn keep(&mut self, keys: &[u32]) {
///         self.0.truncate(keys.len());
///     }
///     fn states(&self, keys: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
///         Ok(vec![std::sync::Arc::new(BooleanArray::from(vec![true; keys.len()]))])
///     }
///     fn restore(&mut self, keys: &[u32], _states: &[ArrayRef]) -> Result<(), Cause> {
///         keys.iter().for_each(|key| self.0[*key as usize] = true);
///         Ok(())
///     }
///     fn bytes(&self) -> usize {
///         self.0.capacity()
///     }
/// }
///
/// let input = std::sync::Arc::new(Schema::new(vec![Field::new("key", DataType::Utf8, true)]));
/// let states = [Field::new("seen", DataType::Boolean, true)];
/// assert!(KeyedRows::new(&input, &[0], 1000, &states, First(Vec::new())).is_ok());
/// ```
pub struct KeyedRows<F> {
    groups: Groups,
    key_columns: Vec<usize>,
    keys_max: usize,
    function: F,
    /// The columns of keys and of states.
    stored: SchemaRef,
    keys: Vec<u32>,
}

impl<F: KeyedFunction> KeyedRows<F> {
    /// Without any key yet, and with at most `keys_max` that have a state. `states`: the columns of states.
    ///
    /// # Errors
    /// If a column cannot be a key.
    pub fn new(
        input: &SchemaRef,
        key_columns: &[usize],
        keys_max: usize,
        states: &[Field],
        function: F,
    ) -> Result<Self, Cause> {
        let keys = key_columns.iter().map(|column| input.field(*column).clone().with_nullable(true));
        let types: Vec<DataType> = keys.clone().map(|field| field.data_type().clone()).collect();
        let stored = keys.chain(states.iter().cloned()).collect::<Vec<_>>();
        Ok(KeyedRows {
            groups: Groups::new(&types, usize::MAX)?,
            key_columns: key_columns.to_vec(),
            keys_max,
            function,
            stored: Arc::new(Schema::new(stored)),
            keys: Vec::new(),
        })
    }

    /// The keys that have a state, in the order in which they came.
    fn used(&self) -> Vec<u32> {
        (0..self.groups.len() as u32).filter(|key| self.function.is_used(*key)).collect()
    }

    /// Keys and states as rows.
    fn rows_of(&self, keys: &[u32]) -> Result<RecordBatch, Cause> {
        let columns = self.groups.keys(keys)?.into_iter().chain(self.function.states(keys)?).collect();
        batch(&self.stored, columns, keys.len())
    }

    fn forget(&mut self) -> Result<(), Cause> {
        let kept = self.used();
        let columns = self.groups.keys(&kept)?;
        self.groups.clear();
        self.groups.intern(&columns, kept.len(), &mut self.keys)?;
        self.function.keep(&kept);
        Ok(())
    }
}

impl<F: KeyedFunction> Operator for KeyedRows<F> {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let columns: Vec<ArrayRef> =
            self.key_columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
        self.groups.intern(&columns, batch.num_rows(), &mut self.keys)?;
        self.function.resize(self.groups.len());
        self.function.rows(&batch, rows.positions(), &self.keys, output.port(0))?;
        if self.function.used() <= self.keys_max { Ok(()) } else { Err(too_many_groups(self.keys_max)) }
    }

    fn end_of_cycle(&mut self, _cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        let forgotten = self.groups.len() - self.function.used();
        if forgotten >= FORGOTTEN_MIN.max(self.function.used()) { self.forget() } else { Ok(()) }
    }

    fn state_bytes(&self) -> usize {
        self.groups.bytes() + self.function.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        write_rows(writer, self.rows_of(&self.used()).ok());
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        let rows = read_rows(reader, &self.stored)?;
        let (keys, states) = rows.columns().split_at(self.key_columns.len());
        self.groups.intern(keys, rows.num_rows(), &mut self.keys)?;
        if self.groups.len() != rows.num_rows() {
            return Err(Cause::user("the snapshot is damaged: it contains a key twice"));
        }
        self.function.resize(self.groups.len());
        self.function.restore(&self.keys, states)
    }

    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![StateRows { kind: "keys", rows: self.rows_of(&self.used())? }]))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Array, Int64Array, StringArray};
    use tidemill_core::{Batch, Fault};

    use super::*;

    /// Sums of values. A sum of 0 is not kept.
    #[derive(Default)]
    struct Sums(Vec<i64>);

    impl KeyedFunction for Sums {
        fn resize(&mut self, keys: usize) {
            self.0.resize(keys, 0);
        }

        fn rows(
            &mut self,
            rows: &RecordBatch,
            positions: &[u32],
            keys: &[u32],
            output: &mut Port,
        ) -> Result<(), Cause> {
            let values = rows.column(1).as_primitive::<Int64Type>().values();
            for ((key, value), position) in keys.iter().zip(values).zip(positions) {
                self.0[*key as usize] += value;
                output.push(*position, (self.0[*key as usize],));
            }
            Ok(())
        }

        fn used(&self) -> usize {
            self.0.iter().filter(|sum| **sum != 0).count()
        }

        fn is_used(&self, key: u32) -> bool {
            self.0[key as usize] != 0
        }

        fn keep(&mut self, keys: &[u32]) {
            self.0 = keys.iter().map(|key| self.0[*key as usize]).collect();
        }

        fn states(&self, keys: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
            let sums = keys.iter().map(|key| self.0[*key as usize]);
            Ok(vec![Arc::new(Int64Array::from_iter_values(sums))])
        }

        fn restore(&mut self, keys: &[u32], states: &[ArrayRef]) -> Result<(), Cause> {
            let sums = states[0].as_primitive::<Int64Type>().values();
            keys.iter().zip(sums).for_each(|(key, sum)| self.0[*key as usize] = *sum);
            Ok(())
        }

        fn bytes(&self) -> usize {
            self.0.capacity() * 8
        }
    }

    fn rows(rows: &[(Option<&str>, i64)]) -> Batch {
        let (keys, values): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
        let keys = Arc::new(StringArray::from(keys)) as ArrayRef;
        let values = Arc::new(Int64Array::from(values)) as ArrayRef;
        let positions: Vec<u32> = (0..rows.len() as u32).collect();
        let batch = RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("v", values, true)]);
        Batch::from_source(batch.unwrap(), positions.into())
    }

    fn sums(key_columns: &[usize], keys_max: usize) -> KeyedRows<Sums> {
        let states = [Field::new("sum", DataType::Int64, true)];
        KeyedRows::new(&rows(&[]).rows.schema(), key_columns, keys_max, &states, Sums::default()).unwrap()
    }

    fn output_of(operator: &mut KeyedRows<Sums>, input: &Batch) -> Result<Vec<i64>, Cause> {
        let schema = Arc::new(Schema::new(vec![Field::new("sum", DataType::Int64, false)]));
        let mut output = Output::new(&[schema]);
        operator.rows(0, input.as_rows(), &mut output)?;
        let cut = Cut::first();
        operator.end_of_cycle(&cut, &mut output)?;
        let sums = output.finish(0).map(|batch| batch.rows.column(0).to_owned());
        Ok(sums.map_or(vec![], |sums| sums.as_primitive::<Int64Type>().values().to_vec()))
    }

    fn restored(of: &KeyedRows<Sums>, into: &mut KeyedRows<Sums>) {
        let mut writer = SnapshotWriter::default();
        of.snapshot(&mut writer);
        let bytes = writer.finish();
        into.restore(&mut SnapshotReader::new(&bytes).unwrap()).unwrap();
    }

    #[test]
    fn a_snapshot_holds_keys_that_have_a_state() {
        let mut before = sums(&[0], 10);
        let input = rows(&[(Some("a"), 1), (None, 2), (Some("b"), 5), (Some("b"), -5), (None, 1)]);
        assert_eq!(output_of(&mut before, &input).unwrap(), [1, 2, 5, 0, 3]);
        let mut after = sums(&[0], 10);
        restored(&before, &mut after);
        let states = after.state_rows().unwrap().unwrap().remove(0).rows;
        assert_eq!((states.num_rows(), states.column(0).null_count()), (2, 1));
        assert_eq!(output_of(&mut after, &input).unwrap(), output_of(&mut before, &input).unwrap());
        let (mut untouched, mut one) = (sums(&[], 10), sums(&[], 10));
        restored(&untouched, &mut one);
        assert_eq!(output_of(&mut untouched, &input).unwrap(), output_of(&mut one, &input).unwrap());
    }

    #[test]
    fn keys_without_a_state_are_forgotten() {
        let mut operator = sums(&[0], 2);
        let names: Vec<String> = (0..3000).map(|key| key.to_string()).collect();
        for part in names.chunks(100) {
            let of_keys: Vec<_> =
                part.iter().flat_map(|key| [(Some(key.as_str()), 1), (Some(key), -1)]).collect();
            output_of(&mut operator, &rows(&of_keys)).unwrap();
            output_of(&mut operator, &rows(&[(Some("kept"), 1)])).unwrap();
        }
        assert!(operator.groups.len() < 2 * FORGOTTEN_MIN, "{}", operator.groups.len());
        assert_eq!(output_of(&mut operator, &rows(&[(Some("kept"), 0)])).unwrap(), [30]);
    }

    #[test]
    fn more_keys_than_allowed_end_the_query() {
        let mut operator = sums(&[0], 2);
        output_of(&mut operator, &rows(&[(Some("a"), 1), (Some("b"), 1)])).unwrap();
        let error = output_of(&mut operator, &rows(&[(Some("c"), 1)])).unwrap_err();
        assert!(error.fault == Fault::Resource && error.message.contains("more than 2"), "{error}");
    }
}
