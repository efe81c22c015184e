//! Reads files once, one after the other.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Progress, SourceOffset, SourceOffsets};

use super::failure::{failed, nothing_found};
use super::listing::list;
use super::offset::Fingerprints;
use super::parts::{FilePart, parts_left, parts_of};
use super::pipe::BLOCK_BYTES;
use super::settings::FileSettings;
use super::text_input::TextInput;
use super::text_progress::{RowsRead, TextProgress, begin_at};
use crate::fetch::FetchedFile;
use crate::formats::{
    BatchReader, DecoderSettings, Fit, Format, RecordDecoder, Waiting, arrow_ipc, parquet, project,
    text_decoder,
};

/// How many bytes of the first file are examined before there is a query.
const SAMPLE_BYTES: usize = 64 * 1024;

/// The files of a source that ends.
pub(super) struct Files {
    format: Format,
    declared: SchemaRef,
    projection: Vec<usize>,
    batch_rows: usize,
    parts: VecDeque<FilePart>,
    current: Option<OpenFile>,
    /// Offsets that changed without rows.
    changed: Vec<SourceOffset>,
    decoder: Option<Box<dyn RecordDecoder>>,
    block: Vec<u8>,
    done_bytes: u64,
    total_bytes: u64,
}

/// A file that is being read.
struct OpenFile {
    part: FilePart,
    prints: Fingerprints,
    name: String,
    content: Content,
}

enum Content {
    Text(TextInput, TextProgress),
    Columns(Columns),
}

/// The rest of a file that knows its own columns.
pub(super) struct Columns {
    fit: Fit,
    reader: BatchReader,
    place: String,
    next_row: u64,
    /// Rows that an earlier run received.
    known_rows: u64,
    size_bytes: u64,
}

impl Columns {
    /// Opens the file.
    pub(super) fn open(
        format: &Format,
        path: &Path,
        declared: &SchemaRef,
        projection: &[usize],
        batch_rows: usize,
    ) -> Result<Columns, Cause> {
        let place = path.display().to_string();
        let file = File::open(path).map_err(|error| failed(&place, error))?;
        Columns::of_file(format, place, file, declared, projection, batch_rows)
    }

    /// Of a file that is open.
    fn of_file(
        format: &Format,
        place: String,
        file: File,
        declared: &SchemaRef,
        projection: &[usize],
        batch_rows: usize,
    ) -> Result<Columns, Cause> {
        let size_bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let open = if *format == Format::Parquet { parquet::open } else { arrow_ipc::open };
        let (fit, reader) = open(&place, file, declared, projection, batch_rows)?;
        Ok(Columns { fit, reader, place, next_row: 1, known_rows: 0, size_bytes })
    }

    /// The next batch; `None` at the end.
    pub(super) fn next(&mut self, faults: &mut Faults) -> Result<Option<RecordBatch>, Cause> {
        let batch = loop {
            let Some(batch) = self.reader.next() else { return Ok(None) };
            let batch = batch.map_err(|error| {
                let (place, row) = (&self.place, self.next_row - 1);
                Cause::user(format!(
                    "{place}: damaged after row {row}: {error}; rewrite the file, or exclude \
                    it"
                ))
                .with_source(error)
            })?;
            let rows = batch.num_rows() as u64;
            let known = self.known_rows.min(rows);
            (self.known_rows, self.next_row) = (self.known_rows - known, self.next_row + known);
            if known < rows || rows == 0 {
                break batch.slice(known as usize, (rows - known) as usize);
            }
        };
        let fitted = self.fit.apply(&self.place, &batch, self.next_row, faults)?;
        self.next_row += batch.num_rows() as u64;
        Ok(Some(fitted))
    }

    /// Skips rows at the beginning that an earlier run received.
    pub(super) fn leave_out(&mut self, rows: u64) {
        self.known_rows = rows;
    }

    /// How many rows of the file were read.
    pub(super) fn rows_read(&self) -> u64 {
        self.next_row - 1
    }
}

impl Files {
    pub(super) fn open(settings: FileSettings, declared: SchemaRef) -> Result<Files, Cause> {
        let paths: Vec<PathBuf> = list(&settings.path)?;
        if paths.is_empty() {
            return Err(nothing_found(&settings.path));
        }
        let total_bytes = paths.iter().filter_map(|path| path.metadata().ok()).map(|data| data.len()).sum();
        Files::of_parts(settings, declared, parts_of(paths), total_bytes)
    }

    /// A file that was fetched.
    pub(super) fn of_fetched(
        settings: FileSettings,
        declared: SchemaRef,
        fetched: FetchedFile,
    ) -> Result<Files, Cause> {
        let total_bytes = fetched.bytes;
        Files::of_parts(settings, declared, [FilePart::of_fetched(0, fetched)].into(), total_bytes)
    }

    fn of_parts(
        settings: FileSettings,
        declared: SchemaRef,
        parts: VecDeque<FilePart>,
        total_bytes: u64,
    ) -> Result<Files, Cause> {
        let format = settings.known_format()?;
        let reports_keys = settings.may_have_other_keys();
        let decoder = if format.is_text() {
            Some(text_decoder(
                format.clone(),
                DecoderSettings {
                    schema: declared.clone(),
                    csv: settings.csv,
                    batch_rows: settings.batch_rows,
                },
            )?)
        } else {
            None
        };
        let decoder = decoder.map(|mut decoder| {
            if reports_keys {
                decoder.report_other_keys();
            }
            decoder
        });
        let projection = (0..declared.fields().len()).collect();
        let batch_rows = settings.batch_rows;
        let mut files = Files {
            format,
            declared,
            projection,
            batch_rows,
            parts,
            current: None,
            changed: Vec::new(),
            decoder,
            block: Vec::new(),
            done_bytes: 0,
            total_bytes,
        };
        files.check_first()?;
        Ok(files)
    }

    /// Checks the first file, so that problems with it (a missing column) are reported at once.
    fn check_first(&mut self) -> Result<(), Cause> {
        let Some(part) = self.parts.front() else { return Ok(()) };
        let Some(decoder) = &mut self.decoder else { return self.open_columns(part).map(drop) };
        let place = part.name();
        let mut sample = vec![0; SAMPLE_BYTES];
        let mut input = TextInput::of_part(part, &self.format)?;
        let count = input.read(&mut sample).map_err(|error| error.explain(&place))?;
        decoder.begin(&input.place(&place));
        decoder.decode(&sample[..count], &mut VecDeque::new())?;
        drop(decoder.faults());
        Ok(())
    }

    fn open_columns(&self, part: &FilePart) -> Result<Columns, Cause> {
        let (declared, projection) = (&self.declared, &self.projection);
        let file = part.open().map_err(|error| failed(&part.name(), error))?;
        Columns::of_file(&self.format, part.name(), file, declared, projection, self.batch_rows)
    }

    /// Resumes where earlier runs stopped.
    pub(super) fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        self.parts = parts_left(std::mem::take(&mut self.parts), offsets, &self.format)?;
        Ok(())
    }

    /// Offsets that changed without rows since this was last asked.
    pub(super) fn take_changed(&mut self) -> Vec<SourceOffset> {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn set_projection(&mut self, columns: &[usize]) -> Result<SchemaRef, Cause> {
        let schema = project(&self.declared, columns)?;
        if let Some(decoder) = &mut self.decoder {
            decoder.set_projection(columns)?;
        }
        self.projection = columns.to_vec();
        Ok(schema)
    }

    pub(super) fn keep_bad_records(&mut self) {
        if let Some(decoder) = &mut self.decoder {
            decoder.keep_bad_records();
        }
    }

    /// Reads until there are rows, or the time is up. True: the end was reached.
    pub(super) fn read(
        &mut self,
        wait: Duration,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
    ) -> Result<bool, Cause> {
        let start = Instant::now();
        while given.is_empty() {
            if self.current.is_none() && !self.open_next()? {
                return Ok(true);
            }
            self.read_some(given, faults)?;
            if self.current.is_none() && self.parts.is_empty() && given.is_empty() {
                return Ok(true);
            }
            if start.elapsed() >= wait {
                break;
            }
        }
        Ok(false)
    }

    fn open_next(&mut self) -> Result<bool, Cause> {
        let Some(part) = self.parts.pop_front() else { return Ok(false) };
        let name = part.name();
        let prints = part.open().and_then(|mut file| {
            let extent = file.metadata()?.len();
            Fingerprints::of(&mut file, extent)
        });
        let prints = prints.map_err(|error| failed(&name, error))?;
        let content = match &mut self.decoder {
            Some(decoder) => {
                let mut input = TextInput::of_part(&part, &self.format)?;
                let track = TextProgress::at(&part.start);
                let place = input.place(&name);
                let read = |target: &mut [u8]| input.read(target).map_err(|error| error.explain(&name));
                let done = begin_at(&mut **decoder, &place, &track, read)?;
                input.go_to(done, track.offset).map_err(|error| error.explain(&name))?;
                if track.offset > 0 {
                    // An earlier run has counted them.
                    input.newly_read();
                }
                Content::Text(input, track)
            }
            None => {
                let mut columns = self.open_columns(&part)?;
                columns.leave_out(part.start.rows);
                Content::Columns(columns)
            }
        };
        self.current = Some(OpenFile { part, prints, name, content });
        Ok(true)
    }

    fn read_some(&mut self, given: &mut VecDeque<RowsRead>, faults: &mut Faults) -> Result<(), Cause> {
        let Some(OpenFile { part, prints, name, content }) = &mut self.current else { return Ok(()) };
        let is_over = match (content, &mut self.decoder) {
            (Content::Columns(columns), _) => {
                let batch = columns.next(faults)?;
                let is_over = batch.is_none();
                if is_over {
                    self.done_bytes += columns.size_bytes;
                }
                let track = TextProgress::of_rows(columns.rows_read());
                if let Some(rows) = batch.filter(|batch| batch.num_rows() > 0) {
                    given.push_back(RowsRead { rows, offset: Some(part.offset(&track, *prints, false)) });
                }
                is_over.then_some(track)
            }
            (Content::Text(input, track), Some(decoder)) => {
                self.block.resize(BLOCK_BYTES, 0);
                let result = input.read(&mut self.block);
                self.done_bytes += input.newly_read();
                let count = result.map_err(|error| error.explain(name))?;
                let (mut batches, mut decoded) = (VecDeque::new(), 0);
                let waiting = match count {
                    0 => {
                        input.check_whole(name, prints)?;
                        decoder.finish(&mut batches)?;
                        Some(Waiting { bytes: 0, line: track.line })
                    }
                    count => {
                        let written = track.written(&self.block[..count]);
                        decoded = written.len();
                        decoder.decode(written, &mut batches)?;
                        decoder.waiting()
                    }
                };
                faults.merge(decoder.faults());
                track.take(decoded as u64, waiting, batches, |rows, track| {
                    given.push_back(RowsRead { rows, offset: Some(part.offset(track, *prints, count == 0)) });
                });
                (count == 0).then_some(*track)
            }
            _ => None,
        };
        if let Some(track) = is_over {
            self.changed.push(part.offset(&track, *prints, true));
            self.current = None;
        }
        Ok(())
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.done_bytes, total: Some(self.total_bytes.max(self.done_bytes)) }
    }
}
