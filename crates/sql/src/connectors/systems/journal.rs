//! `connector = 'journal', path = 'metrics.journal', source = 'm'`: the journal of a durable source as a source, to read
//! the past again, without the rows that were skipped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use tidemill_engine::inspect::{self, Records};
use tidemill_engine::{Cause, Polled, Positions, Progress, Source, Stretch};

use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new("path", OptionKind::Text, OptionDefault::Required, "the journal's folder"),
    OptionDefinition::new(
        "source",
        OptionKind::Text,
        OptionDefault::Nothing("the name of this source"),
        "the name of the source in the journal",
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
        let stream = request.options.text("source").unwrap_or(request.name);
        opened(&path, stream, request.columns.clone())
            .map_err(|cause| OptionError::new("path", cause.to_string()))
    }
}

/// The journal of a stream in a folder; it must have the declared columns.
pub(crate) fn opened(path: &Path, stream: &str, declared: Option<SchemaRef>) -> Result<DefinedSource, Cause> {
    let journaled = inspect::records(path, stream, 0)?.schema();
    if let Some(declared) = declared.filter(|declared| !same_columns(declared, &journaled)) {
        let (declared, journaled) = (described(&declared), described(&journaled));
        return Err(Cause::user(format!(
            "the journal of '{stream}' in '{}' has the columns {journaled}, but {declared} were declared",
            path.display()
        )));
    }
    let (path, stream, raw) = (path.to_path_buf(), stream.to_string(), Arc::clone(&journaled));
    let open: Arc<OpenSource> = Arc::new(move |columns| {
        let columns = columns.map_or_else(|| (0..raw.fields().len()).collect(), <[usize]>::to_vec);
        let schema =
            raw.project(&columns).map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        let records = inspect::records(&path, &stream, 0)?;
        let mut listing = inspect::list(&path)?;
        let skipped = listing.skips.remove(&stream).unwrap_or_default();
        let total = listing.streams.into_iter().find(|log| log.name == stream);
        let total = total.map(|log| log.end - log.first);
        let schema = Arc::new(schema);
        let stretches = Vec::new();
        let reader = JournalReader { records, skipped, columns, schema, stretches, done: 0, total };
        Ok(Box::new(reader) as Box<dyn Source>)
    });
    let replayed = DefinedSource::new(journaled, open);
    Ok(DefinedSource { is_finite: true, starts_over: true, liveness: Liveness::Stored, ..replayed })
}

fn same_columns(left: &Schema, right: &Schema) -> bool {
    let columns = |schema: &Schema| -> Vec<_> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    columns(left) == columns(right)
}

fn described(schema: &Schema) -> String {
    let columns = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    format!("({})", columns.collect::<Vec<_>>().join(", "))
}

/// The contents of a journal, from beginning to end.
struct JournalReader {
    records: Records,
    /// The positions that are left out.
    skipped: Positions,
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Those of the rows that were read last.
    stretches: Vec<Stretch>,
    done: u64,
    total: Option<u64>,
}

impl JournalReader {
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

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let Some(record) = self.records.next().transpose()? else { return Ok(Polled::Ended) };
        self.done += record.rows.num_rows() as u64;
        let columns = self.columns.iter().map(|column| Arc::clone(record.rows.column(*column)));
        let options = RecordBatchOptions::new().with_row_count(Some(record.rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect(), &options);
        let rows = rows.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        self.stretches = record.stretches;
        self.without_skipped(rows, record.start).map(Polled::Rows)
    }

    fn recorded_stretches(&mut self) -> Vec<Stretch> {
        std::mem::take(&mut self.stretches)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: self.total }
    }

    fn is_finite(&self) -> bool {
        true
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
