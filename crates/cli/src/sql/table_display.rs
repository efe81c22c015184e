//! The rows of a table that changes as long as its query runs. On a terminal the table is updated in place; elsewhere
//! its changes are written once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_connect::formats::encode::{TextEncoder, display_width};
use tidemill_connect::memory::{Changes, ChangesSink, TableHandle, TableSink};
use tidemill_engine::Sink;
use tidemill_sql::Output;

use super::rows::RowFormat;
use crate::terminal;

/// How often the table is updated in place.
const IN_PLACE: Duration = Duration::from_millis(200);
/// How often changes are written.
const CHANGES: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct TableDisplay {
    shown: DisplayMode,
    /// The columns that were selected; those behind them only tell which row replaces which.
    selected: Vec<usize>,
    next: Instant,
}

enum DisplayMode {
    InPlace { table: TableHandle, format: RowFormat, version: u64, lines: usize },
    Changes { changes: Changes, encoder: Box<dyn TextEncoder>, header: Option<Vec<u8>>, rows: u64 },
}

impl TableDisplay {
    /// A sink for rows whose key consists of these columns, and the display for it. At most `rows_max` are kept.
    pub fn new(
        format: RowFormat,
        output: &Output,
        key: &[usize],
        rows_max: usize,
    ) -> anyhow::Result<(Box<dyn Sink>, TableDisplay)> {
        let (schema, key) = (&output.schema, key.to_vec());
        let selected: Vec<usize> = (0..schema.fields().len() - output.unselected).collect();
        let now = Instant::now();
        if format.is_for_people() && terminal::size().is_some() {
            let (sink, table) = TableSink::new(schema, key, rows_max)?;
            let shown = DisplayMode::InPlace { table, format, version: 0, lines: 0 };
            return Ok((Box::new(sink), TableDisplay { shown, selected, next: now + IN_PLACE }));
        }
        let (sink, changes) = ChangesSink::new(schema, key, rows_max)?;
        let encoder = format.encoder(&Arc::new(schema.project(&selected)?))?;
        let mut header = Vec::new();
        encoder.header(&mut header);
        let shown = DisplayMode::Changes { changes, encoder, header: Some(header), rows: 0 };
        Ok((Box::new(sink), TableDisplay { shown, selected, next: now }))
    }

    /// Shows what has changed, if an update is due. Returns whether somebody still reads.
    pub fn look(&mut self) -> anyhow::Result<bool> {
        let start = Instant::now();
        if start < self.next {
            return Ok(true);
        }
        match &mut self.shown {
            DisplayMode::InPlace { table, format, version, lines } => {
                if table.version_number() != *version {
                    let found = table.version()?;
                    *version = found.number;
                    let (text, now) = beginning(*format, &found.rows.project(&self.selected)?)?;
                    terminal::write(&[erase(*lines), text].concat())?;
                    *lines = now;
                }
                // A large table takes time, and the query should get most of it.
                self.next = Instant::now() + IN_PLACE.max(10 * start.elapsed());
                Ok(true)
            }
            DisplayMode::Changes { .. } => {
                let (is_read, is_new) = self.write_changes()?;
                if is_new {
                    self.next = start + CHANGES;
                }
                Ok(is_read)
            }
        }
    }

    /// Removes the table, so that something else can be printed.
    pub fn clear(&mut self) -> anyhow::Result<()> {
        match &mut self.shown {
            DisplayMode::InPlace { lines, .. } => terminal::write(&erase(std::mem::take(lines))).map(|_| ()),
            DisplayMode::Changes { .. } => Ok(()),
        }
    }

    /// Gives the text of the last rows to `show`, once the table was removed; returns their number.
    pub fn end(mut self, show: impl FnOnce(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<u64> {
        match &mut self.shown {
            DisplayMode::InPlace { table, format, .. } => {
                let rows = table.read()?.project(&self.selected)?;
                show(&format.all(&rows)?)?;
                Ok(rows.num_rows() as u64)
            }
            DisplayMode::Changes { .. } => {
                self.write_changes()?;
                let DisplayMode::Changes { header, rows, .. } = self.shown else { return Ok(0) };
                if let Some(header) = header {
                    terminal::write(&header)?;
                }
                Ok(rows)
            }
        }
    }

    /// Writes what has changed. Returns whether somebody still reads, and whether there was something.
    fn write_changes(&mut self) -> anyhow::Result<(bool, bool)> {
        let DisplayMode::Changes { changes, encoder, header, rows } = &mut self.shown else {
            return Ok((true, false));
        };
        let Some(changed) = changes.take()? else { return Ok((true, false)) };
        let changed = changed.project(&self.selected)?;
        let mut text = header.take().unwrap_or_default();
        encoder.rows(&changed, &mut text)?;
        *rows += changed.num_rows() as u64;
        Ok((terminal::write(&text)?, true))
    }
}

/// Removes the lines that were written last.
fn erase(lines: usize) -> Vec<u8> {
    match lines {
        0 => Vec::new(),
        lines => format!("\x1b[{lines}A\r\x1b[J").into_bytes(),
    }
}

/// As many rows as fit on the terminal, with a note on the others; and the number of lines that they take.
fn beginning(
    format: RowFormat,
    rows: &tidemill_engine::arrow::array::RecordBatch,
) -> anyhow::Result<(Vec<u8>, usize)> {
    let (lines_max, columns) = terminal::size().unwrap_or((24, 80));
    // Room for the line with the cursor, and for the note.
    let room = lines_max.saturating_sub(2).max(3);
    let some = rows.slice(0, rows.num_rows().min(room));
    let text = String::from_utf8_lossy(&format.all(&some)?).into_owned();
    let lines_of = |line: &str| display_width(line).div_ceil(columns).max(1);
    let mut shown = String::new();
    let mut lines = 0;
    for line in text.lines() {
        if lines + lines_of(line) > room {
            shown.push_str(&format!("... the whole table has {} rows\n", rows.num_rows()));
            return Ok((shown.into_bytes(), lines + 1));
        }
        lines += lines_of(line);
        shown.push_str(line);
        shown.push('\n');
    }
    if some.num_rows() < rows.num_rows() {
        shown.push_str(&format!("... the whole table has {} rows\n", rows.num_rows()));
        lines += 1;
    }
    Ok((shown.into_bytes(), lines))
}
