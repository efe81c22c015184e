//! The write side of what is measured: one store, or several fragments.

use tidemill_core::Cause;
use tidemill_core::arrow::array::RecordBatch;
use tidemill_store::{FragmentBy, Fragmentation, FragmentedWriter, StoreConfig, StoreReader, StoreWriter};

/// One writer, or one for each fragment.
pub enum Writer {
    One(StoreWriter),
    Fragments(FragmentedWriter),
}

impl Writer {
    /// An empty store of this many fragments, divided by the key.
    pub fn new(config: StoreConfig, fragments: u32) -> Result<(Writer, StoreReader), Cause> {
        if fragments == 1 {
            let (writer, reader) = StoreWriter::new(config)?;
            return Ok((Writer::One(writer), reader));
        }
        let fragments = Some(Fragmentation { count: fragments, by: FragmentBy::Key });
        let (writer, reader) = FragmentedWriter::new(StoreConfig { fragments, ..config })?;
        Ok((Writer::Fragments(writer), reader))
    }

    /// Stores the rows of a cycle. Fragments may be a few cycles behind.
    pub fn append(&mut self, cycle: u64, rows: RecordBatch) -> Result<(), Cause> {
        match self {
            Writer::One(writer) => writer.append(cycle, &[rows]),
            Writer::Fragments(writer) => writer.append(cycle, &[rows]),
        }
    }

    /// Waits until all that was stored can be read.
    pub fn publish(&mut self) -> Result<(), Cause> {
        match self {
            Writer::One(_) => Ok(()),
            Writer::Fragments(writer) => writer.publish(),
        }
    }
}
