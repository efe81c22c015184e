//! How a running query publishes its cycles to a store.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use arrow_array::{RecordBatch, RecordBatchOptions};
use tidemill_core::{Cause, CycleOutput, Sink};

use crate::config::StoreConfig;
use crate::reader::StoreReader;
use crate::writer::StoreWriter;

/// Stores the rows of each committed cycle and publishes it as a version. It never waits.
///
/// ```
/// use tidemill_core::Sink;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_store::{StoreConfig, StoreSink};
///
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let (mut sink, reader) = StoreSink::new(StoreConfig::new(&schema))?;
/// sink.finish()?;
/// assert_eq!(reader.latest().read()?.num_rows(), 0);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct StoreSink {
    store: StoreWriter,
    pending: VecDeque<(u64, Vec<RecordBatch>)>,
}

impl StoreSink {
    /// A sink for rows of the configuration's columns, and the handle to read the store.
    ///
    /// # Errors
    /// As for [`StoreWriter::new`].
    pub fn new(config: StoreConfig) -> Result<(StoreSink, StoreReader), Cause> {
        let (store, reader) = StoreWriter::new(config)?;
        Ok((StoreSink::of(store), reader))
    }

    /// A sink into this store.
    pub fn of(store: StoreWriter) -> StoreSink {
        StoreSink { store, pending: VecDeque::new() }
    }

    /// The store.
    pub fn store(&self) -> &StoreWriter {
        &self.store
    }
}

impl Sink for StoreSink {
    fn may_block(&self) -> bool {
        false
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let schema = &self.store.shared.config.schema;
        let batches = output.streams.into_iter().flatten().filter(|batch| !batch.is_empty());
        let renamed = batches.map(|batch| {
            // The rows may differ in names and nullability, but not in types.
            let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
            let columns = batch.rows.columns().to_vec();
            RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|error| {
                Cause::bug(format!("a store received rows that do not have its columns: {error}"))
                    .with_source(error)
            })
        });
        let rows = renamed.collect::<Result<_, Cause>>()?;
        self.pending.push_back((output.cut.cycle, rows));
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        while let Some((cycle, rows)) = self.pending.pop_front_if(|(cycle, _)| *cycle <= *cycles.end()) {
            self.store.append(cycle, &rows)?;
        }
        Ok(())
    }
}
