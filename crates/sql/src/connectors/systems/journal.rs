//! `connector = 'journal', path = 'metrics.journal', source = 'm'`: the journal of a durable source as a source, to read
//! the past again, without the rows that were skipped, or to follow another pipeline.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::inspect::{self, Records};
use tidemill_engine::{
    Cause, Polled, Positions, Progress, Record, Source, SourceOffset, SourceOffsets, Stretch,
};

use super::journal_offset::Reached;
use super::journal_part::{JournalPart, Start};
use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

/// How long it waits before it looks for another record, at first and when nothing has come for some time.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How long a journal that is followed may be incomplete.
const PATIENCE: Duration = Duration::from_secs(10);

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new("path", OptionKind::Text, OptionDefault::Required, "the journal's folder"),
    OptionDefinition::new(
        "source",
        OptionKind::Text,
        OptionDefault::Nothing("the name of this source"),
        "the name of the source in the journal",
    ),
    OptionDefinition::new(
        "follow",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "reads on as the other pipeline takes rows in, and never ends",
    ),
    OptionDefinition::new(
        "start",
        OptionKind::Choice(&["first", "kept", "latest"]),
        OptionDefault::Value("first"),
        "the first row that was ever taken in, and an error if the journal has removed it; `kept`: the oldest that \
         it still has; `latest`, with `follow`: what is taken in from now on",
    ),
];

pub(super) struct Journal;

impl SourceConnector for Journal {
    fn doc(&self) -> &str {
        "the rows that a durable pipeline has taken in, from the oldest to the newest"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let path = PathBuf::from(request.options.required_text("path"));
        let stream = request.options.text("source").unwrap_or(request.name).to_owned();
        let follows = request.options.boolean("follow");
        let start = match request.options.text("start") {
            Some("kept") => Start::Kept,
            Some("latest") if follows => Start::Latest,
            Some("latest") => {
                let error =
                    OptionError::new("start", "a journal that is not followed has nothing after its end");
                return Err(error.with_hint("add follow = true, or remove start"));
            }
            _ => Start::First,
        };
        let journal = JournalPart { path, stream, follows, start };
        defined(journal, request.columns.clone()).map_err(|cause| OptionError::new("path", cause.to_string()))
    }
}

/// The journal of a stream in a folder; it must have the declared columns.
pub(crate) fn opened(path: &Path, stream: &str, declared: Option<SchemaRef>) -> Result<DefinedSource, Cause> {
    let (path, stream) = (path.to_owned(), stream.to_owned());
    defined(JournalPart { path, stream, follows: false, start: Start::First }, declared)
}

fn defined(part: JournalPart, declared: Option<SchemaRef>) -> Result<DefinedSource, Cause> {
    // A query that resumes does not need the first rows, which may be gone.
    let from = if part.follows { part.oldest() } else { part.first() };
    let journaled = match (from.and_then(|from| part.records(from)), declared) {
        (Ok(records), None) => records.schema(),
        (Ok(records), Some(declared)) => part.checked(&records, &declared)?,
        // The other pipeline may start later.
        (Err(_), Some(declared)) if part.follows => declared,
        (Err(cause), _) => return Err(cause),
    };
    let (raw, follows) = (Arc::clone(&journaled), part.follows);
    let open: Arc<OpenSource> = Arc::new(move |columns| {
        let columns = columns.map_or_else(|| (0..raw.fields().len()).collect(), <[usize]>::to_vec);
        Ok(Box::new(JournalReader::new(part.clone(), &raw, columns)?) as Box<dyn Source>)
    });
    let liveness = if follows { Liveness::Live } else { Liveness::Stored };
    let replayed = DefinedSource::new(journaled, open);
    Ok(DefinedSource { is_finite: !follows, starts_over: true, liveness, ..replayed })
}

/// The contents of a journal, from beginning to end, and on if it is followed.
struct JournalReader {
    part: JournalPart,
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

impl JournalReader {
    fn new(part: JournalPart, journaled: &SchemaRef, columns: Vec<usize>) -> Result<JournalReader, Cause> {
        let schema =
            journaled.project(&columns).map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok(JournalReader {
            part,
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
        if self.part.is_awaited() {
            return Ok(());
        }
        let mut listing = inspect::list(&self.part.path)?;
        let log = listing.streams.iter().find(|log| log.name == self.part.stream);
        self.total = log.filter(|_| !self.part.follows).map(|log| log.end - log.first);
        self.skipped = listing.skips.remove(&self.part.stream).unwrap_or_default();
        let first = self.part.first()?;
        self.read_from(self.part.records(first).map_err(|cause| self.part.explained(cause))?)
    }

    /// Opens it. The pipeline that writes it may have begun just now, and some files may not be there yet.
    fn begin(&mut self) -> Result<(), Cause> {
        let opened = self.open();
        if opened.is_err() && self.part.follows {
            let since = self.unreadable.get_or_insert_with(Instant::now);
            return if since.elapsed() < PATIENCE { Ok(()) } else { opened };
        }
        opened
    }

    fn read_from(&mut self, records: Records) -> Result<(), Cause> {
        self.part.checked(&records, &self.journaled)?;
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
            if next.is_some() || !self.part.follows || rest.is_zero() {
                return next.transpose().map_err(|cause| self.part.explained(cause));
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

impl Source for JournalReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let Some(record) = self.record(Instant::now() + wait)? else {
            return Ok(if self.part.follows { Polled::Nothing } else { Polled::Ended });
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
        let mut listing = inspect::list(&self.part.path)?;
        self.skipped = listing.skips.remove(&self.part.stream).unwrap_or_default();
        self.read_from(reached.continued(&self.part)?)
    }

    fn recorded_stretches(&mut self) -> Vec<Stretch> {
        std::mem::take(&mut self.stretches)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: self.total }
    }

    fn is_finite(&self) -> bool {
        !self.part.follows
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
