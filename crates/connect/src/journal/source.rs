//! The source: reads the records of a journal, and waits for more if it follows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use tidemill_core::{Cause, Polled, Progress, Source, SourceOffset, SourceOffsets, Stretch};
use tidemill_journal::inspect::{self, Records};
use tidemill_journal::{Positions, Record};

use super::offset::Reached;
use super::settings::JournalSourceSettings;

/// How long it waits before it looks for another record, at first and when nothing has come for some time.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How long a journal that is followed may be incomplete.
const PATIENCE: Duration = Duration::from_secs(10);

/// The rows that another pipeline has taken in, without those that it skips.
///
/// A durable query keeps how far it has read, with the checksum of the last record, and refuses to continue with another journal.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use arrow_array::{Int64Array, RecordBatch};
/// use tidemill_connect::journal::{JournalSource, JournalSourceSettings, JournalStart};
/// use tidemill_core::{Polled, Source};
/// use tidemill_journal::{Journal, StreamSettings};
///
/// let folder = tempfile::tempdir()?;
/// let rows = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as _)])?;
/// let journal = Journal::open(folder.path())?;
/// let (mut writer, _) = journal.stream("numbers", rows.schema(), &StreamSettings::default())?;
/// writer.append(&rows, 0, None)?;
///
/// let settings = JournalSourceSettings {
///     path: folder.path().to_owned(),
///     stream: "numbers".into(),
///     follows: false,
///     start: JournalStart::First,
/// };
/// let columns = settings.schema(None)?;
/// let mut source = JournalSource::new(settings, &columns, vec![0])?;
/// let Polled::Rows(read) = source.poll(Duration::ZERO)? else { panic!("there are rows") };
/// assert_eq!(read, rows);
/// assert!(matches!(source.poll(Duration::ZERO)?, Polled::Ended));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JournalSource {
    settings: JournalSourceSettings,
    journaled: SchemaRef,
    /// `None`: nothing was read yet.
    records: Option<Records>,
    /// Since when there is something that cannot be read.
    unreadable: Option<Instant>,
    /// The positions that are left out.
    skipped: Positions,
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Those of the rows that were read last.
    stretches: Vec<Stretch>,
    /// How far it was read, if that has changed since it was last asked.
    reached: Option<Reached>,
    done: u64,
    total: Option<u64>,
}

impl JournalSource {
    /// Reads these columns of a journal whose columns are known, see [`JournalSourceSettings::schema`]. Nothing is opened yet.
    ///
    /// # Errors
    /// If the journal has fewer columns.
    pub fn new(
        settings: JournalSourceSettings,
        journaled: &SchemaRef,
        columns: Vec<usize>,
    ) -> Result<JournalSource, Cause> {
        let schema =
            journaled.project(&columns).map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok(JournalSource {
            settings,
            journaled: Arc::clone(journaled),
            records: None,
            unreadable: None,
            skipped: Positions::default(),
            columns,
            schema: Arc::new(schema),
            stretches: Vec::new(),
            reached: None,
            done: 0,
            total: None,
        })
    }

    /// Begins to read, unless nothing is there yet.
    fn open(&mut self) -> Result<(), Cause> {
        if self.settings.is_awaited() {
            return Ok(());
        }
        let mut listing = inspect::list(&self.settings.path)?;
        let log = listing.streams.iter().find(|log| log.name == self.settings.stream);
        self.total = log.filter(|_| !self.settings.follows).map(|log| log.end - log.first);
        self.skipped = listing.skips.remove(&self.settings.stream).unwrap_or_default();
        let first = self.settings.first()?;
        self.read_from(self.settings.records(first).map_err(|cause| self.settings.explained(cause))?)
    }

    /// Opens it. The pipeline that writes it may have begun just now, and some files may not be there yet.
    fn begin(&mut self) -> Result<(), Cause> {
        let opened = self.open();
        if opened.is_err() && self.settings.follows {
            let since = self.unreadable.get_or_insert_with(Instant::now);
            return if since.elapsed() < PATIENCE { Ok(()) } else { opened };
        }
        opened
    }

    fn read_from(&mut self, records: Records) -> Result<(), Cause> {
        self.settings.checked(&records, &self.journaled)?;
        self.records = Some(records);
        Ok(())
    }

    /// The next record. One that is followed and has none is asked again until this time.
    fn record(&mut self, until: Instant) -> Result<Option<Record>, Cause> {
        let mut pause = PAUSE_MIN;
        loop {
            if self.records.is_none() {
                self.begin()?;
            }
            let next = self.records.as_mut().and_then(Records::next);
            let rest = until.saturating_duration_since(Instant::now());
            if next.is_some() || !self.settings.follows || rest.is_zero() {
                return next.transpose().map_err(|cause| self.settings.explained(cause));
            }
            std::thread::sleep(pause.min(rest));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Rows, the first of them at a position, but for those that are left out. The stretches become shorter by these.
    fn without_skipped(&mut self, rows: RecordBatch, start: u64) -> Result<RecordBatch, Cause> {
        let end = start + rows.num_rows() as u64;
        let skipped = self.skipped.within(start..end);
        if skipped.is_empty() {
            return Ok(rows);
        }
        let kept = (start..end).map(|position| skipped.within(position..position + 1).is_empty());
        let kept = BooleanArray::from(kept.collect::<Vec<_>>());
        let mut first = 0;
        for stretch in &mut self.stretches {
            let rows = stretch.rows as usize;
            stretch.rows = kept.slice(first, rows).true_count() as u32;
            first += rows;
        }
        self.stretches.retain(|stretch| stretch.rows > 0);
        filter_record_batch(&rows, &kept).map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }
}

impl Source for JournalSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let Some(record) = self.record(Instant::now() + wait)? else {
            return Ok(if self.settings.follows { Polled::Nothing } else { Polled::Ended });
        };
        let count = record.rows.num_rows();
        self.done += count as u64;
        let checksum = self.records.as_ref().and_then(Records::checksum).unwrap_or_default();
        self.reached = Some(Reached { end: record.start + count as u64, checksum });
        let columns = self.columns.iter().map(|column| Arc::clone(record.rows.column(*column)));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect(), &options);
        let rows = rows.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        self.stretches = record.stretches;
        self.without_skipped(rows, record.start).map(Polled::Rows)
    }

    fn offsets(&mut self) -> Vec<SourceOffset> {
        let reached = self.reached.take().map(|reached| SourceOffset { part: 0, at: Some(reached.encode()) });
        reached.into_iter().collect()
    }

    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        let Some(offset) = offsets.get(&0) else { return Ok(()) };
        let reached = Reached::decode(offset)?;
        let mut listing = inspect::list(&self.settings.path)?;
        self.skipped = listing.skips.remove(&self.settings.stream).unwrap_or_default();
        self.read_from(reached.continued(&self.settings)?)
    }

    fn recorded_stretches(&mut self) -> Vec<Stretch> {
        std::mem::take(&mut self.stretches)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: self.total }
    }

    fn is_finite(&self) -> bool {
        !self.settings.follows
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
