//! How a running query publishes its cycles to a store.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, MemoryAccount, Sink, SnapshotReader, SnapshotWriter};

use crate::chunk_files::ChunkFiles;
use crate::config::StoreConfig;
use crate::fragments::{FragmentedWriter, Restored, restored};
use crate::reader::StoreReader;
use crate::writer::StoreWriter;

/// Stores the rows of each committed cycle and publishes it as a version. It never waits, unless the store has fragments: then a
/// commit waits for the threads of all fragments.
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
    store: Restored,
    /// The columns of what it receives.
    input: SchemaRef,
    pending: VecDeque<(u64, Vec<RecordBatch>)>,
}

impl StoreSink {
    /// A sink for rows of the columns of [`StoreConfig::input`], and the handle to read the store.
    ///
    /// # Errors
    /// As for [`StoreWriter::new`] and [`FragmentedWriter::new`].
    pub fn new(config: StoreConfig) -> Result<(StoreSink, StoreReader), Cause> {
        let (store, reader) = match config.fragments {
            None => {
                let (store, reader) = StoreWriter::new(config)?;
                (Restored::One(store), reader)
            }
            Some(_) => {
                let (store, reader) = FragmentedWriter::new(config)?;
                (Restored::Fragments(store), reader)
            }
        };
        Ok((StoreSink::of(store, &reader), reader))
    }

    /// A sink into the store that [`snapshot`](StoreSink::snapshot) has written, and the handle to read it. Its limits may
    /// differ from those of the store that was written, and count from the next cycle on. If its fragments differ, the
    /// rows of the newest version are divided again, and no earlier one can be read.
    ///
    /// # Errors
    /// As for [`StoreWriter::restore`].
    pub fn restore(
        config: StoreConfig,
        reader: &mut SnapshotReader<'_>,
        files: &mut dyn ChunkFiles,
    ) -> Result<(StoreSink, StoreReader), Cause> {
        let (store, reader) = restored(config, reader, files)?;
        Ok((StoreSink::of(store, &reader), reader))
    }

    fn of(store: Restored, reader: &StoreReader) -> StoreSink {
        StoreSink { store, input: reader.config().input(), pending: VecDeque::new() }
    }

    /// Stores the rows that are there before the first cycle, as for [`StoreWriter::begin_with`]. A store with fragments, which has
    /// no such rows, stays as it is.
    ///
    /// # Errors
    /// As for [`StoreWriter::begin_with`], and if the rows do not have the store's columns; [`Cause::user`] if it has fragments and
    /// would have to take such rows back later.
    pub fn begin_with(&mut self, rows: &RecordBatch) -> Result<(), Cause> {
        match &mut self.store {
            Restored::One(store) => {
                let schema = store.config().schema.clone();
                store.begin_with(&renamed(rows, &schema)?)
            }
            Restored::Fragments(store) => store.begin_with(rows),
        }
    }

    /// Writes all versions that can be read, and to `files` the chunks that are complete and not there yet. The files that
    /// the snapshot names are returned.
    ///
    /// # Errors
    /// As for [`StoreWriter::snapshot`] and [`FragmentedWriter::snapshot`].
    pub fn snapshot(
        &mut self,
        writer: &mut SnapshotWriter,
        files: &mut dyn ChunkFiles,
    ) -> Result<BTreeSet<u64>, Cause> {
        match &mut self.store {
            Restored::One(store) => store.snapshot(writer, files),
            Restored::Fragments(store) => store.snapshot(writer, files),
        }
    }

    /// What the store holds counts in this account from here on, as for [`StoreWriter::count_in`].
    pub fn count_in(&self, account: MemoryAccount, holder: &str) {
        match &self.store {
            Restored::One(store) => store.count_in(account, holder),
            Restored::Fragments(store) => store.count_in(account, holder),
        }
    }
}

impl Sink for StoreSink {
    fn may_block(&self) -> bool {
        matches!(self.store, Restored::Fragments(_))
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let schema = &self.input;
        let batches = output.streams.into_iter().flatten().filter(|batch| !batch.is_empty());
        let renamed = batches.map(|batch| renamed(&batch.rows, schema));
        let rows = renamed.collect::<Result<_, Cause>>()?;
        self.pending.push_back((output.cut.cycle, rows));
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        while let Some((cycle, rows)) = self.pending.pop_front_if(|(cycle, _)| *cycle <= *cycles.end()) {
            match &mut self.store {
                Restored::One(store) => store.append(cycle, &rows)?,
                Restored::Fragments(store) => store.append(cycle, &rows)?,
            }
        }
        match &mut self.store {
            Restored::One(_) => Ok(()),
            Restored::Fragments(store) => store.publish(),
        }
    }
}

/// The rows with the columns of a store. They may differ in names and nullability, but not in types.
fn renamed(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), rows.columns().to_vec(), &options).map_err(|error| {
        Cause::bug(format!("a store received rows that do not have its columns: {error}")).with_source(error)
    })
}
