//! Windows without rows: which keys get them, and how long.

use std::sync::Arc;

use arrow_array::{ArrayRef, TimestampNanosecondArray};
use arrow_schema::{DataType, FieldRef, Schema};
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter, StateLimit, StateRows};

use crate::panes::Panes;
use crate::state::{StateColumns, read_columns, write_columns};
use crate::state_rows::batch;
use crate::{Groups, WindowSpec};

/// The most windows without rows that may be asked for in a row: a day by the second.
pub const EMPTY_WINDOWS_MAX: i64 = 100_000;

/// Which windows without rows are written: those that follow a key's window with rows, as long as rows of any key still
/// come. Without keys, all rows of the sources count, also those that a condition removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub struct EmptyWindows {
    /// How many of them a key gets in a row; 1 to [`EMPTY_WINDOWS_MAX`]. Then the key is forgotten until its next row. So a
    /// jump of the watermark writes a bounded number of windows, and keys that do not come back take no memory.
    pub windows_max: i64,
}

impl EmptyWindows {
    pub(crate) fn check(&self) -> Result<(), Cause> {
        if (1..=EMPTY_WINDOWS_MAX).contains(&self.windows_max) {
            Ok(())
        } else {
            Err(Cause::user(format!(
                "{} empty windows in a row are asked for, but 1 to {EMPTY_WINDOWS_MAX} are allowed; use a shorter \
                 time or longer windows",
                self.windows_max
            )))
        }
    }
}

/// The keys that get windows without rows.
pub(crate) struct LiveKeys {
    slide_ns: i64,
    /// How long after the start of its last window with rows a key gets windows.
    reach_ns: i64,
    keys_max: usize,
    keys: Groups,
    /// For each key, the start of its last window with rows.
    last: Vec<i64>,
    /// The largest of these.
    latest: i64,
    /// The start of the last window that was written, if there was one.
    written: Option<i64>,
    /// The last pane in which a row of the sources lies.
    last_pane: i64,
    ids: Vec<u32>,
}

const SNAPSHOT_VERSION: u8 = 1;

impl LiveKeys {
    /// No keys, and at most `keys_max`.
    pub fn new(
        empty: &EmptyWindows,
        window: &WindowSpec,
        types: &[DataType],
        keys_max: usize,
    ) -> Result<LiveKeys, Cause> {
        empty.check()?;
        Ok(LiveKeys {
            slide_ns: window.slide_ns,
            reach_ns: empty.windows_max.saturating_mul(window.slide_ns),
            keys_max,
            keys: Groups::new(types, usize::MAX)?,
            last: Vec::new(),
            latest: i64::MIN,
            written: None,
            last_pane: i64::MIN,
            ids: Vec::new(),
        })
    }

    /// Takes note of a row of the sources in this pane.
    pub fn note_pane(&mut self, pane: i64) {
        self.last_pane = self.last_pane.max(pane);
    }

    /// The start of the next window in which a key may have no rows; `None` if there is none as far as is known.
    pub fn next_window(&self, panes: &Panes, closed: i64) -> Option<i64> {
        let next = self.written?.checked_add(self.slide_ns)?;
        // A window that closed unseen is not written any more: what reads the windows counts on their order.
        let start = if panes.window_end(next) <= closed { panes.first_window(closed, closed)? } else { next };
        let is_reached = start <= self.last_pane && start.saturating_sub(self.latest) <= self.reach_ns;
        is_reached.then_some(start)
    }

    /// Takes note of the keys that have rows in a window. Returns the other keys that get it, and their number.
    pub fn missing(&mut self, start: i64, present: &Groups) -> Result<(Vec<ArrayRef>, usize), Cause> {
        self.written = Some(start);
        let all = (0..present.len() as u32).collect::<Vec<_>>();
        if !all.is_empty() {
            self.keys.intern(&present.keys(&all)?, all.len(), &mut self.ids)?;
            self.last.resize(self.keys.len(), start);
            self.ids.iter().for_each(|id| self.last[*id as usize] = start);
            self.latest = start;
        }
        self.forget(start)?;
        let lacks_rows = |id: &u32| {
            let last = self.last[*id as usize];
            last < start && self.is_live(last, start)
        };
        let missing = (0..self.last.len() as u32).filter(lacks_rows).collect::<Vec<_>>();
        Ok((self.keys.keys(&missing)?, missing.len()))
    }

    fn is_live(&self, last: i64, start: i64) -> bool {
        start.saturating_sub(last) <= self.reach_ns
    }

    /// Removes keys that get no more windows, once they are half of all.
    fn forget(&mut self, start: i64) -> Result<(), Cause> {
        let live = self.last.iter().filter(|last| self.is_live(**last, start)).count();
        if live > self.keys_max {
            return Err(StateLimit::MAX_GROUPS.reached(format!(
                "more than {} keys in one partition get empty windows; forget keys sooner, as in empty => INTERVAL '1 \
                 minute', group by fewer values, or raise max_groups",
                self.keys_max
            )));
        }
        if 2 * live > self.last.len() {
            return Ok(());
        }
        let is_live = |id: &u32| self.is_live(self.last[*id as usize], start);
        let kept = (0..self.last.len() as u32).filter(is_live).collect::<Vec<_>>();
        let keys = self.keys.keys(&kept)?;
        self.last = kept.iter().map(|id| self.last[*id as usize]).collect();
        self.keys.clear();
        self.keys.intern(&keys, kept.len(), &mut self.ids)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.last.capacity() * size_of::<i64>()
    }

    /// The keys, with the start of the last window in which each had rows. The fields are those of the keys and of that
    /// time.
    pub fn state_rows(&self, fields: &[FieldRef]) -> Result<StateRows, Cause> {
        let all = (0..self.last.len() as u32).collect::<Vec<_>>();
        let mut columns = self.keys.keys(&all)?;
        let last = TimestampNanosecondArray::from(self.last.clone());
        let (time, keys) = fields.split_last().ok_or_else(|| Cause::bug("windows without bounds"))?;
        columns.push(Arc::new(last.with_data_type(time.data_type().clone())));
        let last = Arc::new(time.as_ref().clone().with_name("last_window_with_rows"));
        let schema = Arc::new(Schema::new(keys.iter().cloned().chain([last]).collect::<Vec<_>>()));
        Ok(StateRows { kind: "keys", rows: batch(&schema, columns, all.len())? })
    }

    /// Writes the keys, and how far windows were written.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        writer.u8(u8::from(self.written.is_some()));
        for time in [self.written.unwrap_or_default(), self.latest, self.last_pane] {
            writer.i64(time);
        }
        let all = (0..self.last.len() as u32).collect::<Vec<_>>();
        write_columns(writer, all.len(), self.keys.keys(&all));
        self.last.iter().for_each(|last| writer.i64(*last));
    }

    /// Reads what [`snapshot`](LiveKeys::snapshot) wrote.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>, types: &[DataType]) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        let is_written = reader.u8()? != 0;
        self.written = Some(reader.i64()?).filter(|_| is_written);
        (self.latest, self.last_pane) = (reader.i64()?, reader.i64()?);
        let columns = StateColumns { types: types.to_vec(), added: Vec::new() };
        let (rows, keys) = read_columns(reader, &columns)?;
        self.keys.intern(&keys, rows, &mut self.ids)?;
        if self.keys.len() != rows {
            return Err(Cause::operation("the snapshot is damaged: keys of windows occur twice"));
        }
        self.last = (0..rows).map(|_| reader.i64()).collect::<Result<_, Cause>>()?;
        Ok(())
    }
}
