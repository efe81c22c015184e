//! Opens a log, even after a crash: reads the newest segment and cuts off what was torn at its end.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use parking_lot::Mutex;
use tidemill_core::error::Cause;
use tidemill_core::fields::Malformed;

use crate::failure::{damaged, failed, foreign};
use crate::lengths::opening::{self, Opening};
use crate::medium::{LockGuard, Medium};
use crate::origins::Origins;
use crate::progress::StreamProgress;
use crate::record_log::{LogSettings, LogShared, NotCreated, RecordLog, Tail, create_segment};
use crate::replace::remove_unfinished;
use crate::rows::{decode_schema, fields_text, is_widened};
use crate::scan::{Next, Scan};
use crate::segment::{
    Segment, SegmentFile, SegmentHead, VERSION, read_head, segment_name, segment_positions,
};

/// The smallest size of a segment; below it, a segment would hold one record.
const SEGMENT_BYTES_MIN: u64 = 512;

/// The newest segment, as the crash left it.
struct Recovered {
    tail: Tail,
    end: u64,
    origins: Origins,
    torn_bytes: u64,
    /// Whether the segment has the version and the columns of today.
    is_current: bool,
}

/// Opens the log, even after a crash, or creates an empty one.
pub(crate) fn open(
    medium: Arc<dyn Medium>,
    mut settings: LogSettings,
    lock: LockGuard,
) -> Result<RecordLog, Cause> {
    // So that there is something to remove before the limit is reached.
    settings.segment_bytes = settings.segment_bytes.min(settings.bytes_max / 4).max(SEGMENT_BYTES_MIN);
    let folder = &settings.folder;
    medium.create_folder(folder).map_err(|error| failed("create the folder", folder, error))?;
    remove_unfinished(&*medium, folder)?;
    let names = medium.names(folder).map_err(|error| failed("list", folder, error))?;
    let positions = segment_positions(&names);
    let opening = opening::read(&*medium, folder)?;
    let mut segments = Vec::with_capacity(positions.len());
    let mut recovered = match positions.split_last() {
        None => begin(&*medium, &settings)?,
        Some((newest, older)) => {
            for (first, next) in older.iter().zip(&positions[1..]) {
                segments.push(Arc::new(older_segment(&*medium, &settings, *first..*next)?));
            }
            recover(&*medium, &settings, *newest, &opening)?
        }
    };
    opening.check(&*medium, folder, recovered.end, None)?;
    if !recovered.is_current {
        segments.extend(leave_old_segment(&*medium, &settings, &mut recovered)?);
    }
    segments.push(recovered.tail.segment.clone());
    // The previous run may have failed between making a segment and making its name durable.
    medium.sync_folder(folder).map_err(|error| failed("sync the folder", folder, error))?;
    Ok(log(medium, settings, lock, segments, recovered))
}

fn log(
    medium: Arc<dyn Medium>,
    settings: LogSettings,
    lock: LockGuard,
    segments: Vec<Arc<Segment>>,
    recovered: Recovered,
) -> RecordLog {
    let progress = Arc::new(StreamProgress::default());
    progress.set_first(segments[0].first);
    progress.set_end(recovered.end);
    progress.set_synced(recovered.end);
    progress.set_bytes_max(settings.bytes_max);
    progress.set_segments(&segments);
    RecordLog {
        settings,
        shared: Arc::new(LogShared { medium, segments: Mutex::new(segments), progress }),
        tail: recovered.tail,
        origins: recovered.origins,
        torn_bytes: recovered.torn_bytes,
        failure: None,
        _lock: lock,
    }
}

/// An empty log.
fn begin(medium: &dyn Medium, settings: &LogSettings) -> Result<Recovered, Cause> {
    let origins = Origins::new(settings.clients_max);
    match create_segment(medium, settings, 0, &origins, 0) {
        Ok(tail) => Ok(Recovered { tail, end: 0, origins, torn_bytes: 0, is_current: true }),
        Err(NotCreated::Undone(cause) | NotCreated::Unknown(cause)) => Err(cause),
    }
}

/// Continues in a new segment behind one of an older format or with fewer columns, which is left as it is and returned; an empty one is
/// replaced. So no segment has records that its version does not support, and an older program refuses what it would
/// misread.
fn leave_old_segment(
    medium: &dyn Medium,
    settings: &LogSettings,
    recovered: &mut Recovered,
) -> Result<Option<Arc<Segment>>, Cause> {
    let old = recovered.tail.segment.clone();
    let is_empty = recovered.end == old.first;
    if !is_empty {
        // The rest of its space is returned. If that fails, nothing is lost.
        let _ = recovered.tail.file.file.truncate(recovered.tail.offset);
    }
    match create_segment(medium, settings, recovered.end, &recovered.origins, 0) {
        Ok(tail) => recovered.tail = tail,
        Err(NotCreated::Undone(cause) | NotCreated::Unknown(cause)) => return Err(cause),
    }
    Ok((!is_empty).then_some(old))
}

/// A segment with these positions that is no longer being written. Its records are checked when they are read; that no segment is missing
/// behind it, now.
fn older_segment(medium: &dyn Medium, settings: &LogSettings, of: Range<u64>) -> Result<Segment, Cause> {
    let (first, next) = (of.start, of.end);
    let path = settings.folder.join(segment_name(first));
    let file = medium.open(&path, false).map_err(|error| failed("open", &path, error))?;
    let head = read_head(&path, &*file, settings.clients_max)?;
    check_head(&path, &head, settings, first)?;
    let length = file.length().map_err(|error| failed("read", &path, error))?;
    let mut scan = Scan::new(path.clone(), file, head.bytes, first)?;
    if scan.ends_before(next)? {
        let reason = format!("positions {} to {next} are missing behind it", scan.position);
        return Err(damaged(&path, scan.offset, reason));
    }
    Ok(Segment::new(first, path, (head.bytes, identity_of(head.identity, settings)), length))
}

fn recover(
    medium: &dyn Medium,
    settings: &LogSettings,
    first: u64,
    opening: &Opening,
) -> Result<Recovered, Cause> {
    let (mut newest, bad) = Newest::read(medium, settings, first, u64::MAX)?;
    let torn_bytes = newest.scan.remains()?;
    if torn_bytes > 0 {
        let reason = newest.scan.damage(bad, opening.is_of_this_start(medium))?;
        if let Some(reason) = reason {
            return Err(damaged(&newest.scan.path, newest.scan.offset, reason));
        }
        cut_off(&mut newest.tail, settings.segment_bytes)?;
    }
    // What was read may only be in the system's memory; from here on it counts as safe.
    newest.tail.file.sync()?;
    let Newest { scan, tail, origins, is_current } = newest;
    Ok(Recovered { tail, end: scan.position, origins, torn_bytes, is_current })
}

/// The newest segment, read up to some position, with the tail there.
struct Newest {
    scan: Scan,
    tail: Tail,
    origins: Origins,
    is_current: bool,
}

impl Newest {
    /// Reads up to a position or the end. If something there is not a record, also returns the reason.
    fn read(
        medium: &dyn Medium,
        settings: &LogSettings,
        first: u64,
        end: u64,
    ) -> Result<(Newest, Option<&'static str>), Cause> {
        let path = settings.folder.join(segment_name(first));
        let file = medium.open(&path, true).map_err(|error| failed("open", &path, error))?;
        let head = read_head(&path, &*file, settings.clients_max)?;
        check_head(&path, &head, settings, first)?;
        let allocated = file.length().map_err(|error| failed("read", &path, error))?;
        let is_current = head.version == VERSION && is_same(&head.identity, &settings.identity);
        let identity = identity_of(head.identity, settings);
        let mut origins = head.origins;
        let mut scan = Scan::new(path.clone(), file.clone(), head.bytes, first)?;
        let mut bad = None;
        while scan.position < end {
            match scan.next()? {
                Next::Record(found) => {
                    let offsets = found.head.offsets(&found.bytes);
                    let offsets = offsets.map_err(|Malformed| {
                        damaged(&path, found.offset, "the offsets of a record are cut off")
                    })?;
                    origins.note(found.head.request(&found.bytes).as_ref(), offsets);
                }
                Next::End => break,
                Next::Bad(reason) => {
                    bad = Some(reason);
                    break;
                }
            }
        }
        let offset = scan.offset;
        let segment = Arc::new(Segment::new(first, path.clone(), (head.bytes, identity), offset));
        let tail = Tail { file: Arc::new(SegmentFile::new(path, file)), segment, offset, allocated };
        Ok((Newest { scan, tail, origins, is_current }, bad))
    }
}

/// Durably cuts off everything behind the tail, so that nothing of it is ever taken for a record.
pub(crate) fn cut_off(tail: &mut Tail, segment_bytes: u64) -> Result<(), Cause> {
    let file = &tail.file;
    file.file.truncate(tail.offset).map_err(|error| failed("cut off the torn end", &file.path, error))?;
    // On a full disk the next record goes to the next segment, once there is room for one.
    let reserved = file.file.allocate(segment_bytes.max(tail.offset));
    tail.allocated = if reserved.is_ok() { segment_bytes.max(tail.offset) } else { tail.offset };
    tail.file.sync()
}

/// Durably cuts off everything from a position on, which must be the beginning of a record.
pub(crate) fn cut_back(log: &mut RecordLog, end: u64) -> Result<(), Cause> {
    log.usable()?;
    if end >= log.end() {
        return Ok(());
    }
    remove_behind(log, end).map_err(|cause| log.close(cause))
}

/// Removes the segments behind a position, newest first, and cuts off the records behind it.
fn remove_behind(log: &mut RecordLog, end: u64) -> Result<(), Cause> {
    let medium = log.shared.medium.clone();
    let opening = opening::read(&*medium, &log.settings.folder)?;
    if opening.end > end {
        // First, so that the shorter log is never taken for one that has lost its end.
        opening::write(&*medium, &log.settings.folder, &Opening { end, ..opening })?;
    }
    loop {
        let newest = log.shared.segments().last().cloned();
        let Some(newest) = newest.filter(|segment| segment.first > end) else { break };
        if log.shared.segments().len() == 1 {
            let reason = format!("position {end} no longer exists; the first one is {}", newest.first);
            return Err(Cause::operation(format!("{}: {reason}", newest.path.display())));
        }
        log.shared.segments().pop();
        let removed = medium.remove(&newest.path).and_then(|()| medium.sync_folder(&log.settings.folder));
        removed.map_err(|error| failed("remove", &newest.path, error))?;
    }
    let first = log.shared.segments().last().map_or(0, |segment| segment.first);
    let (Newest { scan, mut tail, origins, .. }, _) = Newest::read(&*medium, &log.settings, first, end)?;
    if scan.position != end {
        return Err(damaged(&scan.path, scan.offset, format!("no record ends at position {end}")));
    }
    cut_off(&mut tail, log.settings.segment_bytes)?;
    let mut segments = log.shared.segments();
    segments.pop();
    segments.push(tail.segment.clone());
    drop(segments);
    (log.tail, log.origins) = (tail, origins);
    log.count_bytes();
    log.shared.progress.set_end(end);
    log.shared.progress.set_synced(end);
    Ok(())
}

fn check_head(path: &Path, head: &SegmentHead, settings: &LogSettings, first: u64) -> Result<(), Cause> {
    if head.content != settings.content as u8 {
        let reason = format!("it contains records of kind {}, not {}", head.content, settings.content as u8);
        return Err(foreign(path, reason, "move it back to where it was"));
    }
    if head.first != first {
        let reason = format!("its first position is {}, but its name says {first}", head.first);
        return Err(foreign(path, reason, "restore its name"));
    }
    if may_follow(&head.identity, &settings.identity) {
        return Ok(());
    }
    let remedy = remedy(&head.identity, &settings.identity);
    let remedy = remedy.as_deref().unwrap_or("journal the changed stream in another folder");
    Err(foreign(path, different(head, settings), remedy))
}

/// What a segment says of its records; shared if it is what the log says.
fn identity_of(identity: Vec<u8>, settings: &LogSettings) -> Arc<[u8]> {
    if *identity == *settings.identity { settings.identity.clone() } else { identity.into() }
}

/// Whether a log may continue that has a segment like this: it holds the same, or has got columns since.
fn may_follow(written: &[u8], wanted: &[u8]) -> bool {
    let widened = || {
        let (written, wanted) = (decode_schema(written).ok()?, decode_schema(wanted).ok()?);
        Some(is_widened(&written, &wanted))
    };
    is_same(written, wanted) || widened().unwrap_or(false)
}

/// Whether two segments hold the same: a schema with metadata may be written in several ways.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let schemas = || Some((decode_schema(one).ok()?, decode_schema(other).ok()?));
    one == other || schemas().is_some_and(|(one, other)| one.fields() == other.fields())
}

fn different(head: &SegmentHead, settings: &LogSettings) -> String {
    let columns = |identity: &[u8]| match decode_schema(identity) {
        Ok(schema) => fields_text(&schema),
        Err(reason) => format!("an unreadable schema: {reason}"),
    };
    let (found, wanted) = (columns(&head.identity), columns(&settings.identity));
    format!("the journal has the columns ({found}), but the stream has ({wanted})")
}

/// What to do about columns that are others than those of a segment, if it is known; otherwise the journal is another one's.
fn remedy(written: &[u8], wanted: &[u8]) -> Option<String> {
    let (written, wanted) = (decode_schema(written).ok()?, decode_schema(wanted).ok()?);
    let was_float = |field: &&FieldRef| {
        let known = written.field_with_name(field.name());
        known.is_ok_and(|known| *known.data_type() == DataType::Float32)
            && *field.data_type() == DataType::Float64
    };
    let floats: Vec<&str> =
        wanted.fields().iter().filter(was_float).map(|field| field.name().as_str()).collect();
    if !floats.is_empty() {
        let columns = floats.join("' and '");
        return Some(format!(
            "declare '{columns}' as REAL, which is what FLOAT meant when the journal was written; \
             FLOAT means DOUBLE now"
        ));
    }
    let is_new = |field: &&FieldRef| written.index_of(field.name()).is_err() && !field.is_nullable();
    let new = wanted.fields().iter().find(is_new)?;
    Some(format!(
        "declare '{}' without NOT NULL, because the rows that are there do not have it; or journal the changed \
         stream in another folder",
        new.name()
    ))
}
