//! The stores that are tried: undivided ones, and ones that are divided by their key or by a value.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::Int64Type;
use tidemill_core::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, new_null_array};
use tidemill_core::arrow::schema::DataType;
use tidemill_core::clock::ManualClock;
use tidemill_core::{Batch, Cause, Cut, CycleOutput, Expression, Sink, SnapshotReader, SnapshotWriter};
use tidemill_store::{
    ChunkFiles as _, FragmentBy, Fragmentation, StoreConfig, StoreReader, StoreSink, named_chunks,
};

use crate::oracle::cars::{Car, batch};
use crate::oracle::files::Files;

/// A third of a number, or the length of a text. It fails for some values.
#[derive(Debug)]
pub struct Third {
    pub column: usize,
}

impl Expression for Third {
    fn data_type(&self) -> DataType {
        DataType::Int64
    }

    fn evaluate(&self, rows: &RecordBatch, _: &Cut) -> Result<ArrayRef, Cause> {
        let column = rows.column(self.column);
        let values: Vec<Option<i64>> = match column.data_type() {
            DataType::Utf8 => column.as_string::<i32>().iter().map(|text| Some(text?.len() as i64)).collect(),
            _ => column.as_primitive::<Int64Type>().iter().map(|value| Some(value? / 3)).collect(),
        };
        if values.iter().any(|value| value.is_some_and(|value| value % 5 == 2)) {
            Err(Cause::user("a third cannot be computed"))
        } else {
            Ok(Arc::new(Int64Array::from(values)))
        }
    }
}

/// Divided by the key, or by a third of this column.
pub fn fragmentation(count: u32, third_of: Option<usize>) -> Fragmentation {
    let by = match third_of {
        None => FragmentBy::Key,
        Some(column) => FragmentBy::Expression {
            text: format!("a third of column {column}"),
            expression: Arc::new(Third { column }),
        },
    };
    Fragmentation { count, by }
}

/// The fragment of each row, asked one row at a time.
pub fn fragment_of(config: &StoreConfig, car: &Car) -> usize {
    let Some(fragmentation) = &config.fragments else { return 0 };
    let row = batch(std::slice::from_ref(car));
    let values = match &fragmentation.by {
        FragmentBy::Key => config.key.iter().flatten().map(|column| row.column(*column).clone()).collect(),
        FragmentBy::Expression { expression, .. } => {
            let value = expression.evaluate(&row, &Cut::first());
            vec![value.unwrap_or_else(|_| new_null_array(&DataType::Int64, 1))]
        }
    };
    fragmentation.fragment_of(&values).unwrap()
}

/// A sink into a store, fed as a query feeds it.
pub struct Store {
    sink: StoreSink,
    pub reader: StoreReader,
    pub files: Files,
}

impl Store {
    pub fn new(config: &StoreConfig) -> Store {
        let (sink, reader) = StoreSink::new(config.clone()).unwrap();
        Store { sink, reader, files: Files::default() }
    }

    pub fn prepare(&mut self, cycle: u64, batches: &[RecordBatch]) {
        let stream = |rows: &RecordBatch| {
            let positions: Vec<u32> = (0..rows.num_rows() as u32).collect();
            Some(Batch::from_source(rows.clone(), positions.into()))
        };
        let cut = Arc::new(Cut { cycle, ..Cut::first() });
        let clock = Arc::new(ManualClock::default());
        let streams = batches.iter().map(stream).collect();
        self.sink.prepare(CycleOutput { cut, streams, arrivals: Arc::default(), clock }).unwrap();
    }

    pub fn begin_with(&mut self, rows: &RecordBatch) -> Result<(), Cause> {
        self.sink.begin_with(rows)
    }

    pub fn commit(&mut self, first: u64, last: u64) -> Result<(), Cause> {
        self.sink.commit(first..=last)
    }

    pub fn append(&mut self, cycle: u64, batches: &[RecordBatch]) -> Result<(), Cause> {
        self.prepare(cycle, batches);
        self.commit(cycle, cycle)
    }

    pub fn snapshot(&mut self) -> Vec<u8> {
        let mut writer = SnapshotWriter::default();
        let named = self.sink.snapshot(&mut writer, &mut self.files).unwrap();
        self.files.keep_only(&named);
        let bytes = writer.finish();
        // Without the definition, the same files are found in it, and each chunk can be read.
        let places = named_chunks(&bytes).unwrap();
        assert_eq!(places.iter().map(|place| place.file).collect::<BTreeSet<u64>>(), named);
        places.iter().for_each(|place| drop(self.files.read(place).unwrap()));
        bytes
    }

    pub fn restore(config: &StoreConfig, bytes: &[u8], mut files: Files) -> Result<Store, Cause> {
        let mut snapshot = SnapshotReader::new(bytes)?;
        let (sink, reader) = StoreSink::restore(config.clone(), &mut snapshot, &mut files)?;
        if snapshot.is_empty() {
            Ok(Store { sink, reader, files })
        } else {
            Err(Cause::bug("bytes are left"))
        }
    }

    /// What a restart leaves of it.
    pub fn restored(mut self, config: &StoreConfig) -> Store {
        let bytes = self.snapshot();
        let files = std::mem::take(&mut self.files);
        drop(self);
        Store::restore(config, &bytes, files).unwrap()
    }
}
