//! A table that is printed once, when the query has ended.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Sink};

use super::output::write;
use crate::formats::encode::{TableStyle, TextEncoder, TextFormat};
use crate::memory::TableHandle;
use crate::memory::TableSink;

/// Keeps the last row of each key and writes the table when the query ends: the answer to `SELECT key, count(*) ...
/// GROUP BY key` over a finite input. Nothing is written before, and nothing at all if the query fails. A reader that
/// has closed the output ends it as with [`StandardOutput`](super::StandardOutput).
///
/// ```
/// use tidemill_connect::formats::encode::TextFormat;
/// use tidemill_connect::standard_streams::LatestTable;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::{Cause, Sink};
///
/// let campaign = Field::new("campaign", DataType::Utf8, false);
/// let schema = Schema::new(vec![campaign, Field::new("clicks", DataType::Int64, false)]).into();
/// let mut table = LatestTable::new(Vec::new(), &schema, vec![0], 1000, &TextFormat::table())?;
/// table.finish()?;
/// assert_eq!(table.into_writer(), b" campaign | clicks\n----------+--------\n");
/// # Ok::<(), Cause>(())
/// ```
pub struct LatestTable<W: Write + Send> {
    writer: W,
    sink: TableSink,
    table: TableHandle,
    encoder: Box<dyn TextEncoder>,
    closed: Arc<AtomicBool>,
}

impl<W: Write + Send> LatestTable<W> {
    /// Writes to this writer; `key_columns` are the key.
    ///
    /// # Errors
    /// As for [`TableStore::new`](crate::memory::TableStore::new), and [`Cause::user`] if the format cannot represent such
    /// rows.
    pub fn new(
        writer: W,
        schema: &SchemaRef,
        key_columns: Vec<usize>,
        rows_max: usize,
        format: &TextFormat,
    ) -> Result<Self, Cause> {
        let (sink, table) = TableSink::new(schema, key_columns, rows_max)?;
        let format = match format {
            // All rows are there, so the columns need no room for later ones.
            TextFormat::Table(style) => TextFormat::Table(TableStyle { rows_follow: false, ..style.clone() }),
            other => other.clone(),
        };
        Ok(LatestTable { writer, sink, table, encoder: format.encoder(schema)?, closed: Arc::default() })
    }

    /// A handle to read the table before it is written.
    pub fn handle(&self) -> TableHandle {
        self.table.clone()
    }

    /// Becomes true once the reader has closed the output.
    pub fn closed(&self) -> Arc<AtomicBool> {
        self.closed.clone()
    }

    /// The writer.
    pub fn into_writer(self) -> W {
        self.writer
    }
}

/// The number of rows that are turned into text at a time.
const ROWS_PER_WRITE: usize = 8192;

impl<W: Write + Send> Sink for LatestTable<W> {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.sink.prepare(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.sink.commit(cycles)
    }

    fn finish(&mut self) -> Result<(), Cause> {
        let rows = self.table.read()?;
        let mut text = Vec::new();
        self.encoder.header(&mut text);
        let mut start = 0;
        loop {
            let length = ROWS_PER_WRITE.min(rows.num_rows() - start);
            self.encoder.rows(&rows.slice(start, length), &mut text)?;
            write(&mut self.writer, &text, &self.closed)?;
            text.clear();
            start += length;
            if start == rows.num_rows() {
                return Ok(());
            }
        }
    }
}
