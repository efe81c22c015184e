//! A log of records in segments. Journals of rows and the log of cuts are made of it.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tidemill_core::connections::Stretch;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::source::{Request, SourceOffset};

use crate::failure::failed;
use crate::frame::{CLIENT_BYTES_MAX, NewFrame, RECORD_BYTES_MAX, encode_frame, frame_bytes};
use crate::lengths::opening::{self, Opening};
use crate::medium::{LockGuard, Medium};
use crate::origins::{Origins, encode_offsets};
use crate::progress::StreamProgress;
use crate::segment::{Content, Segment, SegmentFile, encode_head, segment_name};
use crate::stretches::encode_stretches;

/// What a log contains and how large it may become.
#[derive(Clone)]
pub(crate) struct LogSettings {
    pub folder: PathBuf,
    pub content: Content,
    /// What the records describe, for the heads of segments.
    pub identity: Arc<[u8]>,
    pub segment_bytes: u64,
    pub bytes_max: u64,
    pub retain_bytes: u64,
    pub clients_max: usize,
}

/// What the writer of a log shares with its readers.
pub(crate) struct LogShared {
    pub medium: Arc<dyn Medium>,
    /// Ascending; the last one is being written.
    pub segments: Mutex<Vec<Arc<Segment>>>,
    pub progress: Arc<StreamProgress>,
}

impl LogShared {
    pub(crate) fn segments(&self) -> MutexGuard<'_, Vec<Arc<Segment>>> {
        self.segments.lock()
    }
}

/// Where the next record goes.
pub(crate) struct Tail {
    pub file: Arc<SegmentFile>,
    pub segment: Arc<Segment>,
    pub offset: u64,
    /// Space is reserved up to here.
    pub allocated: u64,
}

/// The writing end of a log.
pub(crate) struct RecordLog {
    pub settings: LogSettings,
    pub shared: Arc<LogShared>,
    pub tail: Tail,
    pub origins: Origins,
    /// How many bytes of a torn record were cut off when it was opened.
    pub torn_bytes: u64,
    /// Why it accepts no more records.
    pub failure: Option<Cause>,
    /// Nobody else may write in this folder.
    pub _lock: LockGuard,
}

/// What is to be synced. The log need not be locked meanwhile.
pub(crate) struct PendingSync {
    file: Arc<SegmentFile>,
    position: u64,
}

impl PendingSync {
    pub(crate) fn run(&self) -> Result<(), Cause> {
        self.file.sync()
    }
}

/// What to append besides the content.
#[derive(Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub count: u32,
    pub arrived_ns: u64,
    pub request: Option<&'a Request>,
    pub offsets: &'a [SourceOffset],
    pub stretches: &'a [Stretch],
}

impl RecordLog {
    pub(crate) fn end(&self) -> u64 {
        self.shared.progress.end()
    }

    /// Appends a record; it is not yet synced. Returns one past its last position.
    pub(crate) fn append(&mut self, record: NewRecord, content: &[&[u8]]) -> Result<u64, Cause> {
        self.usable()?;
        let (offsets, stretches) = (encode_offsets(record.offsets), encode_stretches(record.stretches));
        let NewRecord { count, arrived_ns, request, .. } = record;
        let start = self.end();
        let (offsets, stretches) = (&offsets[..], &stretches[..]);
        let mut frame = NewFrame { start, count, synced: 0, arrived_ns, request, offsets, stretches };
        let length = check_length(&frame, content)?;
        self.origins.check(record.offsets)?;
        self.make_room()?;
        self.reserve(length)?;
        frame.synced = self.shared.progress.synced();
        let (file, offset) = (&self.tail.file.file, self.tail.offset);
        if let Err(error) = encode_frame(&frame, content, |parts| file.write_at(parts, offset)) {
            let cause = failed("append", &self.tail.file.path, error);
            self.wipe_tail();
            return Err(cause);
        }
        self.origins.note(request, record.offsets.iter().cloned());
        self.tail.offset += length;
        self.tail.segment.set_written(self.tail.offset);
        self.count_bytes();
        self.shared.progress.set_end(start + u64::from(count));
        Ok(start + u64::from(count))
    }

    /// Whether the limit on bytes leaves room for a record, once what is no longer needed is removed.
    pub(crate) fn has_room(&mut self) -> Result<bool, Cause> {
        let progress = &self.shared.progress;
        let is_over = |progress: &StreamProgress| progress.bytes() >= self.settings.bytes_max;
        if !is_over(progress) {
            return Ok(true);
        }
        if progress.released() >= progress.end() && progress.end() > self.tail.segment.first {
            self.begin_segment(0)?;
        }
        self.remove_released()?;
        Ok(self.shared.progress.bytes() < self.settings.bytes_max)
    }

    /// What is to be synced now; `None`: nothing.
    pub(crate) fn begin_sync(&self) -> Result<Option<PendingSync>, Cause> {
        self.usable()?;
        let position = self.end();
        let is_due = self.shared.progress.synced() < position;
        Ok(is_due.then(|| PendingSync { file: self.tail.file.clone(), position }))
    }

    /// Records the outcome of the sync.
    pub(crate) fn end_sync(&mut self, pending: &PendingSync, result: Result<(), Cause>) -> Result<(), Cause> {
        if let Err(cause) = result {
            return Err(self.close(cause));
        }
        if self.shared.progress.synced() < pending.position {
            self.shared.progress.set_synced(pending.position);
        }
        Ok(())
    }

    /// Syncs what was appended, and removes what is no longer needed.
    pub(crate) fn sync(&mut self) -> Result<(), Cause> {
        if let Some(pending) = self.begin_sync()? {
            let result = pending.run();
            self.end_sync(&pending, result)?;
        }
        self.remove_released()
    }

    /// Removes whole segments that are no longer needed, oldest first.
    pub(crate) fn remove_released(&mut self) -> Result<(), Cause> {
        let released = self.released_segments();
        let mut history: u64 = released.iter().map(|segment| segment.written()).sum();
        for segment in released {
            let is_over = self.shared.progress.bytes() >= self.settings.bytes_max;
            let bytes = segment.written();
            if !is_over && history < bytes.saturating_add(self.settings.retain_bytes) {
                break;
            }
            if !self.remove_oldest(&segment)? {
                break;
            }
            history -= bytes;
        }
        Ok(())
    }

    /// The segments below the position that is no longer needed, except for the one that is being written.
    fn released_segments(&self) -> Vec<Arc<Segment>> {
        let released = self.shared.progress.released();
        let segments = self.shared.segments();
        let pairs = segments.windows(2).take_while(|pair| pair[1].first <= released);
        pairs.map(|pair| pair[0].clone()).collect()
    }

    /// Whether it is removed: it may be needed again meanwhile.
    fn remove_oldest(&mut self, segment: &Segment) -> Result<bool, Cause> {
        let medium = &self.shared.medium;
        {
            let mut segments = self.shared.segments();
            if !self.shared.progress.give_up_before(segments[1].first) {
                return Ok(false);
            }
            segments.remove(0);
        }
        self.count_bytes();
        // The name must be gone for good before the next one is removed: a power failure must leave no gap.
        let removed = medium.remove(&segment.path).and_then(|()| medium.sync_folder(&self.settings.folder));
        removed.map_err(|error| failed("remove", &segment.path, error))?;
        Ok(true)
    }

    /// An error if there is no room for a record.
    fn make_room(&mut self) -> Result<(), Cause> {
        if self.has_room()? {
            return Ok(());
        }
        let (folder, limit) = (self.settings.folder.display(), self.settings.bytes_max);
        Err(Cause::resource(format!(
            "the journal in {folder} has reached its limit of {limit} bytes; wait for the query to catch up, \
             or raise journal_max"
        )))
    }

    /// Ensures that the tail has space for `length` bytes: in its segment, or in a new one if that one is full.
    fn reserve(&mut self, length: u64) -> Result<(), Cause> {
        let needed = self.tail.offset + length;
        if needed <= self.tail.allocated {
            return Ok(());
        }
        if needed > self.settings.segment_bytes && self.end() > self.tail.segment.first {
            return self.begin_segment(length);
        }
        let allocated = self.settings.segment_bytes.max(needed);
        let file = &self.tail.file;
        file.file.allocate(allocated).map_err(|error| failed("reserve space", &file.path, error))?;
        self.tail.allocated = allocated;
        Ok(())
    }

    /// Begins a segment that has room for a record of `length` bytes; the previous one is synced.
    fn begin_segment(&mut self, length: u64) -> Result<(), Cause> {
        let pending = PendingSync { file: self.tail.file.clone(), position: self.end() };
        let result = pending.run();
        self.end_sync(&pending, result)?;
        let tail =
            match create_segment(&*self.shared.medium, &self.settings, self.end(), &self.origins, length) {
                Ok(tail) => tail,
                Err(NotCreated::Undone(cause)) => return Err(cause),
                Err(NotCreated::Unknown(cause)) => return Err(self.close(cause)),
            };
        // The rest of the space is returned. If that fails, nothing is lost.
        let _ = self.tail.file.file.truncate(self.tail.offset);
        self.shared.segments().push(tail.segment.clone());
        self.tail = tail;
        self.count_bytes();
        Ok(())
    }

    /// Cleans up after a failed write: nothing of it may stay where the next record goes, which may be shorter.
    fn wipe_tail(&mut self) {
        let Tail { file, offset, allocated, .. } = &mut self.tail;
        match file.file.truncate(*offset) {
            Ok(()) => *allocated = *offset,
            Err(error) => {
                let cause = failed("cut off a record that failed", &file.path, error);
                self.close(cause);
            }
        }
    }

    /// Notes, durably, that the log was opened as it is now.
    pub(crate) fn note_opening(&self) -> Result<(), Cause> {
        let medium = &*self.shared.medium;
        opening::write(medium, &self.settings.folder, &Opening::now(medium, self.end()))
    }

    pub(crate) fn count_bytes(&self) {
        self.shared.progress.set_segments(&self.shared.segments());
    }

    pub(crate) fn usable(&self) -> Result<(), Cause> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Closes the log to further records.
    pub(crate) fn close(&mut self, cause: Cause) -> Cause {
        self.shared.progress.fail(&cause);
        self.failure.get_or_insert(cause).clone()
    }
}

/// A segment that could not be created: either for lack of space, and nothing of it is left; or with unknown state on
/// the disk.
pub(crate) enum NotCreated {
    Undone(Cause),
    Unknown(Cause),
}

/// Durably creates an empty segment, from a temporary file, so that a segment always has its head.
pub(crate) fn create_segment(
    medium: &dyn Medium,
    settings: &LogSettings,
    first: u64,
    origins: &Origins,
    length: u64,
) -> Result<Tail, NotCreated> {
    let path = settings.folder.join(segment_name(first));
    let new = path.with_extension("new");
    let head = encode_head(settings.content, first, &settings.identity, origins);
    let offset = head.len() as u64;
    let allocated = settings.segment_bytes.max(offset + length);
    let written = medium.create(&new).and_then(|file| {
        file.allocate(allocated)?;
        file.write_at(&[&head], 0)?;
        file.sync()?;
        medium.rename(&new, &path)?;
        Ok(file)
    });
    let file = written.map_err(|error| {
        let _ = medium.remove(&new);
        match failed("create a segment", &path, error) {
            full @ Cause { fault: Fault::Resource, .. } => NotCreated::Undone(full),
            cause => NotCreated::Unknown(cause),
        }
    })?;
    medium
        .sync_folder(&settings.folder)
        .map_err(|error| NotCreated::Unknown(failed("create a segment", &path, error)))?;
    let segment = Arc::new(Segment::new(first, path.clone(), (offset, settings.identity.clone()), offset));
    Ok(Tail { file: Arc::new(SegmentFile::new(path, file)), segment, offset, allocated })
}

fn check_length(frame: &NewFrame, content: &[&[u8]]) -> Result<u64, Cause> {
    if let Some(request) = frame.request.filter(|request| request.client.len() > CLIENT_BYTES_MAX) {
        let length = request.client.len();
        return Err(Cause::user(format!(
            "the name of a client has {length} bytes; give it one of at most {CLIENT_BYTES_MAX}"
        )));
    }
    if frame.count == 0 {
        return Err(Cause::bug("a record without rows was appended to a journal"));
    }
    let content_bytes = content.iter().map(|part| part.len()).sum();
    let length = frame_bytes(frame, content_bytes) as u64;
    if length <= RECORD_BYTES_MAX {
        Ok(length)
    } else {
        Err(Cause::resource(format!(
            "a batch of rows has {length} bytes, but at most {RECORD_BYTES_MAX} are allowed; send fewer rows \
             at once"
        )))
    }
}
