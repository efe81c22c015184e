//! The records of a stream, one after the other.

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;

use super::segment_walk::SegmentWalk;
use crate::failure::damaged;
use crate::rows::RowDecoder;
use crate::stream::Record;

/// The records of a stream; see [`records`](super::records()).
pub struct Records {
    walk: SegmentWalk,
    decoder: RowDecoder,
    from: u64,
    checksum: Option<u32>,
    failed: bool,
}

impl Records {
    /// The decoder is that of the segment with which the walk begins.
    pub(super) fn new(walk: SegmentWalk, decoder: RowDecoder, from: u64) -> Records {
        Records { walk, decoder, from, checksum: None, failed: false }
    }

    /// Reads what is written from now on, too: after `None`, there may be a next record later.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{Int64Array, RecordBatch};
    /// # use tidemill_journal::{Journal, StreamSettings, inspect};
    /// # let column = Arc::new(Int64Array::from(vec![7, 8])) as _;
    /// # let rows = RecordBatch::try_from_iter([("value", column)])?;
    /// # let folder = tempfile::tempdir()?;
    /// # let journal = Journal::open(folder.path())?;
    /// # let (mut writer, _) = journal.stream("numbers", rows.schema(), &StreamSettings::default())?;
    /// let mut records = inspect::records(folder.path(), "numbers", 0)?.following();
    /// assert!(records.next().is_none());
    /// writer.append(&rows, 0, None)?;
    /// assert!(records.next().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn following(mut self) -> Records {
        self.walk.follow();
        self
    }

    /// The checksum of the last record: two records with the same rows and another history have different ones.
    pub fn checksum(&self) -> Option<u32> {
        self.checksum
    }

    /// The columns of the stream, as they are journaled now. Rows that were written before it got one of them are NULL there.
    pub fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }

    fn record(&mut self) -> Result<Option<Record>, Cause> {
        while let Some(found) = self.walk.next()? {
            if let Some(head) = self.walk.take_entered() {
                let decoder = self.decoder.of_segment(&head.identity);
                self.decoder = decoder.map_err(|reason| damaged(self.walk.path(), 0, reason))?;
            }
            if found.head.end() <= self.from {
                continue;
            }
            self.checksum = Some(found.head.checksum());
            let record = Record::of(&found.head, &found.bytes, &self.decoder);
            return record.map(Some).map_err(|reason| damaged(self.walk.path(), found.offset, reason));
        }
        Ok(None)
    }
}

impl Iterator for Records {
    type Item = Result<Record, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = self.record();
        self.failed = record.is_err();
        record.transpose()
    }
}
