//! Inspects a journal's folder without the lock: what it contains, whether it is intact, and the rows of a stream.
//! Nothing is changed, and a query may run on the folder meanwhile.

mod definitions;
mod later_cuts;
mod named_positions;
mod records;
mod segment_walk;
mod views;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_core::fields::Fields;

use crate::commits::CommitFile;
use crate::current_query;
use crate::cut_record::decode_cut;
use crate::database;
use crate::disk::Disk;
use crate::epochs::{self, Epoch};
use crate::failure::{damaged, failed};
use crate::journal;
use crate::layout;
use crate::lengths::opening::{self, Opening};
use crate::medium::Medium;
use crate::query::beginning::BeganAt;
use crate::query::{self, beginning, identity};
use crate::rows::{RowDecoder, decode_schema};
use crate::scan::{Next, Scan, ScannedRecord};
use crate::segment::{Content, SegmentHead, read_head, segment_name, segment_positions};
use crate::skips::{self, Skips};
use crate::snapshots::{SnapshotFolder, StoredSnapshot};
use crate::stream::Record;
pub use definitions::{definitions, verify_catalogue};
pub use later_cuts::{LaterCuts, cuts_from};
use named_positions::named_positions;
pub use records::Records;
use segment_walk::SegmentWalk;
pub use views::{ViewVerification, verify_views};

/// What is in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The streams, by name.
    pub streams: Vec<LogListing>,
    /// The log of cuts; its positions are numbers of cycles.
    pub cuts: LogListing,
    /// The cycles that have snapshots.
    pub snapshots: Vec<u64>,
    /// For each sink that needs the file, its last committed cycle.
    pub commits: BTreeMap<String, u64>,
    /// For each stream the positions that are left out.
    pub skips: Skips,
    /// If it is the journal of a database: what has happened to it, in order.
    pub epochs: Vec<Epoch>,
    /// Whether a query is being filled that is to replace the one whose cuts, snapshots and commits these are.
    pub has_replacement: bool,
}

/// A log and its segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogListing {
    /// The stream's name; empty for the cuts.
    pub name: String,
    /// Ascending.
    pub segments: Vec<SegmentListing>,
    /// The first position.
    pub first: u64,
    /// One past the last position.
    pub end: u64,
    /// The bytes of all segments, including reserved space.
    pub bytes: u64,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentListing {
    /// Its file.
    pub path: PathBuf,
    /// Its first position.
    pub first: u64,
    /// The length of the file.
    pub bytes: u64,
}

/// Something in a folder that differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub path: PathBuf,
    /// At which byte of the file.
    pub offset: u64,
    /// What.
    pub reason: String,
    /// How bad it is.
    pub kind: FindingKind,
}

/// How bad it is that something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Something is missing, or is not what was written.
    Damage,
    /// The torn end of the newest segment, which is cut off when the query starts.
    TornEnd,
    /// Something unused, which only takes room.
    Unused,
}

/// The result of reading everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// How many records were read.
    pub records: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many snapshots were read.
    pub snapshots: u64,
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
}

/// Lists the contents of a folder. Only the newest segment of each log is read.
///
/// # Errors
/// If it is not a journal's folder, or a file cannot be read or has another version.
pub fn list(folder: &Path) -> Result<Listing, Cause> {
    list_on(&Disk, folder)
}

/// [`list`] on another medium.
///
/// # Errors
/// As [`list`].
pub fn list_on(medium: &dyn Medium, folder: &Path) -> Result<Listing, Cause> {
    refuse_others(medium, folder)?;
    let streams = layout::streams(folder);
    let mut logs = Vec::new();
    for name in sorted_names(medium, &streams)? {
        let Some(stream) = layout::stream_of(&name) else { continue };
        logs.push(list_log(medium, stream, &streams.join(name))?);
    }
    let own = &current_query::folder_of(medium, folder)?;
    Ok(Listing {
        streams: logs,
        cuts: list_log(medium, String::new(), &layout::cuts(own))?,
        snapshots: snapshot_cycles(medium, own)?,
        commits: CommitFile::read_on(medium, &layout::commits(own))?,
        skips: skips::read(medium, &layout::skips(folder))?,
        epochs: epochs::read(medium, &layout::epochs(folder))?,
        has_replacement: current_query::next(medium, folder)?.is_some(),
    })
}

/// The description of the query that a folder belongs to; `None` if it has none.
///
/// # Errors
/// If the file is damaged, or a newer program wrote it.
pub fn query(folder: &Path) -> Result<Option<String>, Cause> {
    query::read(&Disk, &layout::query(&current_query::folder_of(&Disk, folder)?))
}

/// Where the query that a folder belongs to began; `None`: an earlier version has begun it, and did not say.
///
/// # Errors
/// If the file is damaged, or a newer program wrote it.
pub fn beginning(folder: &Path) -> Result<Option<BeganAt>, Cause> {
    beginning::read(&Disk, &layout::beginning(&current_query::folder_of(&Disk, folder)?))
}

/// The state after a cycle.
///
/// # Errors
/// If it does not exist any more, is damaged, or was written by a newer program.
pub fn snapshot(folder: &Path, cycle: u64) -> Result<StoredSnapshot, Cause> {
    let own = current_query::folder_of(&Disk, folder)?;
    let path = SnapshotFolder::path_in(&layout::snapshots(&own), cycle);
    SnapshotFolder::read_on(&Disk, &path, cycle)
}

fn list_log(medium: &dyn Medium, name: String, folder: &Path) -> Result<LogListing, Cause> {
    let mut log = LogListing { name, ..LogListing::default() };
    for first in segments(medium, folder)? {
        let path = folder.join(segment_name(first));
        let bytes = match medium.open(&path, false).and_then(|file| file.length()) {
            // It was removed since the folder was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            bytes => bytes.map_err(|error| failed("read", &path, error))?,
        };
        log.bytes += bytes;
        log.segments.push(SegmentListing { path, first, bytes });
    }
    if let (Some(oldest), Some(newest)) = (log.segments.first(), log.segments.last()) {
        let (_, mut scan) = open_segment(medium, folder, newest.first)?;
        while let Next::Record(_) = scan.next()? {}
        (log.first, log.end) = (oldest.first, scan.position);
    }
    Ok(log)
}

/// Reads everything. What cannot be read becomes a finding, not an error.
///
/// # Errors
/// If it is not a journal's folder, or cannot be read.
pub fn verify(folder: &Path) -> Result<Verification, Cause> {
    verify_on(&Disk, folder)
}

/// [`verify`] on another medium.
///
/// # Errors
/// As [`verify`].
pub fn verify_on(medium: &dyn Medium, folder: &Path) -> Result<Verification, Cause> {
    refuse_others(medium, folder)?;
    let mut verification = Verification::default();
    let streams = layout::streams(folder);
    // First, because a query that runs meanwhile logs no cut before its rows.
    let named = named_positions(medium, folder).unwrap_or_default();
    for name in sorted_names(medium, &streams)? {
        let of_stream = layout::stream_of(&name).and_then(|stream| named.get(&stream)).copied();
        verification.log(medium, &streams.join(name), Content::Rows, of_stream)?;
    }
    for own in current_query::query_folders(medium, folder)? {
        verification.query(medium, &own)?;
    }
    verification.find_all([
        (layout::manifest(folder), journal::check_manifest(medium, folder).err()),
        (layout::skips(folder), skips::read(medium, &layout::skips(folder)).err()),
        (layout::epochs(folder), epochs::read(medium, &layout::epochs(folder)).err()),
        (layout::seen_epochs(folder), epochs::read_seen(medium, &layout::seen_epochs(folder)).err()),
    ]);
    Ok(verification)
}

/// A folder without any part of a journal was probably misspelled.
fn refuse_others(medium: &dyn Medium, folder: &Path) -> Result<(), Cause> {
    let path = layout::manifest(folder);
    let is_there = medium.open(&path, false).is_ok();
    if is_there || !sorted_names(medium, &layout::streams(folder))?.is_empty() {
        return Ok(());
    }
    Err(Cause::user(format!(
        "'{}' is not a journal; a durable pipeline keeps its journal in the folder NAME.journal beside its \
         script NAME.sql",
        folder.display()
    )))
}

impl Verification {
    /// What belongs to one query.
    fn query(&mut self, medium: &dyn Medium, own: &Path) -> Result<(), Cause> {
        let named = self.named_cycles(medium, own)?;
        self.log(medium, &layout::cuts(own), Content::Cuts, named)?;
        for cycle in snapshot_cycles(medium, own)? {
            self.snapshots += 1;
            let path = SnapshotFolder::path_in(&layout::snapshots(own), cycle);
            if let Err(cause) = SnapshotFolder::read_on(medium, &path, cycle) {
                self.find(&path, 0, cause.to_string());
            }
        }
        self.find_all([
            (layout::commits(own), CommitFile::read_on(medium, &layout::commits(own)).err()),
            (layout::away(own), CommitFile::read_on(medium, &layout::away(own)).err()),
            (layout::query(own), query::read(medium, &layout::query(own)).err()),
            (layout::begun(own), CommitFile::read_on(medium, &layout::begun(own)).err()),
            (layout::beginning(own), beginning::read(medium, &layout::beginning(own)).err()),
            (layout::identity(own), identity::read(medium, &layout::identity(own)).err()),
        ]);
        let has_streams = !sorted_names(medium, &layout::streams(own))?.is_empty();
        let has_parts = !snapshot_cycles(medium, own)?.is_empty()
            || !CommitFile::read_on(medium, &layout::commits(own)).is_ok_and(|commits| commits.is_empty())
            || (has_streams && !segments(medium, &layout::cuts(own))?.is_empty());
        if has_parts && matches!(query::read(medium, &layout::query(own)), Ok(None)) {
            let reason = "it is missing, and says which query the rest of the folder belongs to";
            self.find(&layout::query(own), 0, reason.to_owned());
        }
        Ok(())
    }

    /// One past the last cycle that a query with cuts of its own has kept something of.
    fn named_cycles(&self, medium: &dyn Medium, own: &Path) -> Result<Option<u64>, Cause> {
        let description = query::read(medium, &layout::query(own)).ok().flatten().unwrap_or_default();
        if database::sources_of_query(&description).next().is_some() {
            return Ok(None);
        }
        let commits = CommitFile::read_on(medium, &layout::commits(own)).unwrap_or_default();
        let newest = snapshot_cycles(medium, own)?.last().copied();
        Ok(newest.into_iter().chain(commits.into_values()).max().map(|cycle: u64| cycle.saturating_add(1)))
    }

    fn find_all(&mut self, files: impl IntoIterator<Item = (PathBuf, Option<Cause>)>) {
        let wrong = files.into_iter().filter_map(|(path, cause)| Some((path, cause?)));
        wrong.for_each(|(path, cause)| self.find(&path, 0, cause.to_string()));
    }

    /// Reads a log, whose last position others name, if it is known.
    fn log(
        &mut self,
        medium: &dyn Medium,
        folder: &Path,
        content: Content,
        named: Option<u64>,
    ) -> Result<(), Cause> {
        let opening = opening::read(medium, folder).unwrap_or_else(|cause| {
            self.find(&opening::path(folder), 0, cause.to_string());
            Opening::default()
        });
        let is_uninterrupted = opening.is_of_this_start(medium);
        let firsts = segments(medium, folder)?;
        let mut end = None;
        for (at, first) in firsts.iter().enumerate() {
            let path = folder.join(segment_name(*first));
            let next = firsts.get(at + 1).copied();
            match open_segment(medium, folder, *first) {
                Ok((head, scan)) => end = self.segment(head, scan, next, (content, is_uninterrupted)),
                // It was removed since the folder was listed.
                Err(_) if !segments(medium, folder)?.contains(first) => continue,
                Err(cause) => self.find(&path, 0, cause.to_string()),
            }
        }
        if firsts.is_empty() && named.is_some_and(|named| named > 0) {
            // A log has its first segment before it has a record.
            let named = named.unwrap_or_default();
            self.find(folder, 0, format!("it is empty, but other files name its positions up to {named}"));
        } else if let Some(end) = end.or(firsts.is_empty().then_some(0)) {
            self.end(medium, folder, (end, named), &opening);
        }
        Ok(())
    }

    /// Whether a log ends where it must.
    fn end(
        &mut self,
        medium: &dyn Medium,
        folder: &Path,
        (end, named): (u64, Option<u64>),
        opening: &Opening,
    ) {
        if let Err(cause) = opening.check(medium, folder, end, named) {
            self.find(folder, 0, cause.to_string());
        } else if let Some(named) = named.filter(|named| *named > end) {
            let reason = format!(
                "it has the positions up to {end}, but other files name {named}: a power failure has taken what was \
                 not synced"
            );
            let (path, kind) = (folder.to_owned(), FindingKind::TornEnd);
            self.findings.push(Finding { path, offset: 0, reason, kind });
        }
    }

    /// Reads a segment; returns where it ends, if it can be read.
    fn segment(
        &mut self,
        head: SegmentHead,
        mut scan: Scan,
        next: Option<u64>,
        (content, is_uninterrupted): (Content, bool),
    ) -> Option<u64> {
        let decoder = (content == Content::Rows).then(|| decoder_of(&head));
        let decoder = match decoder.transpose() {
            Ok(decoder) => decoder,
            Err(reason) => {
                self.find(&scan.path, 0, reason);
                return None;
            }
        };
        let end = loop {
            match scan.next() {
                Ok(Next::Record(found)) => self.record(&scan.path, &found, (content, decoder.as_ref())),
                Ok(Next::End) => break None,
                Ok(Next::Bad(reason)) => break Some(reason),
                Err(cause) => {
                    self.find(&scan.path, scan.offset, cause.to_string());
                    return None;
                }
            }
        };
        match (end, next) {
            (Some(reason), Some(_)) => self.find(&scan.path, scan.offset, reason.to_owned()),
            (_, None) => self.newest_end(&mut scan, is_uninterrupted),
            (None, Some(next)) if next != scan.position => {
                let reason = format!("positions {} to {next} are missing", scan.position);
                self.find(&scan.path, scan.offset, reason);
            }
            (None, Some(_)) => {}
        }
        Some(scan.position)
    }

    fn record(
        &mut self,
        path: &Path,
        found: &ScannedRecord,
        (content, decoder): (Content, Option<&RowDecoder>),
    ) {
        self.records += 1;
        self.bytes += found.head.length as u64;
        let result = match decoder {
            Some(decoder) => Record::of(&found.head, &found.bytes, decoder).map(drop),
            // Only who wrote them knows what they say.
            None if content == Content::Definitions => Ok(()),
            None => match decode_cut(&mut Fields(&found.bytes[found.head.content()])) {
                Ok(cut) if cut.cycle == found.head.start => Ok(()),
                _ => Err("this is not the expected cut".to_owned()),
            },
        };
        if let Err(reason) = result {
            self.find(path, found.offset, reason);
        }
    }

    /// The end of the newest segment: a write that was cut short or is in progress, or damage.
    fn newest_end(&mut self, scan: &mut Scan, is_uninterrupted: bool) {
        // A query that runs may have written it to its end meanwhile.
        let bad = match scan.peek() {
            Ok(Next::Record(_)) => return,
            Ok(Next::Bad(reason)) => Some(reason),
            Ok(Next::End) if scan.remains().is_ok_and(|bytes| bytes == 0) => return,
            Ok(Next::End) => None,
            Err(cause) => return self.find(&scan.path, scan.offset, cause.to_string()),
        };
        let (reason, kind) = match scan.damage(bad, is_uninterrupted) {
            Ok(None) => (bad.unwrap_or("a record is missing").to_owned(), FindingKind::TornEnd),
            Ok(Some(damage)) => (damage, FindingKind::Damage),
            Err(cause) => (cause.to_string(), FindingKind::Damage),
        };
        let (path, offset) = (scan.path.clone(), scan.offset);
        self.findings.push(Finding { path, offset, reason, kind });
    }

    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: Verification) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.snapshots += other.snapshots;
        self.findings.extend(other.findings);
    }

    fn find(&mut self, path: &Path, offset: u64, reason: String) {
        let (path, kind) = (path.to_owned(), FindingKind::Damage);
        self.findings.push(Finding { path, offset, reason, kind });
    }
}

/// The records of a stream in order, starting with the one that contains `from`, up to what has been written at the
/// time of reading.
///
/// # Errors
/// If the stream does not exist, the position was removed, or a segment cannot be read.
///
/// ```
/// # use std::sync::Arc;
/// # use tidemill_core::arrow::array::{Int64Array, RecordBatch};
/// # use tidemill_journal::{Journal, StreamSettings, inspect};
/// # let column = Arc::new(Int64Array::from(vec![7, 8])) as _;
/// # let rows = RecordBatch::try_from_iter([("value", column)])?;
/// # let folder = tempfile::tempdir()?;
/// # let journal = Journal::open(folder.path())?;
/// # let (mut writer, _) = journal.stream("numbers", rows.schema(), &StreamSettings::default())?;
/// # writer.append(&rows, 0, None)?;
/// for record in inspect::records(folder.path(), "numbers", 0)? {
///     assert_eq!(record?.rows.num_rows(), 2);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn records(folder: &Path, stream: &str, from: u64) -> Result<Records, Cause> {
    records_on(Box::new(Disk), folder, stream, from)
}

/// [`records`] on another medium.
///
/// # Errors
/// As [`records`].
pub fn records_on(medium: Box<dyn Medium>, folder: &Path, stream: &str, from: u64) -> Result<Records, Cause> {
    let name = layout::stream_name(stream).unwrap_or_default();
    let folder = layout::streams(folder).join(name);
    let oldest = segments(&*medium, &folder)?.first().copied();
    let Some((head, walk)) = SegmentWalk::open(medium, folder.clone(), from)? else {
        let text = match oldest {
            None => format!("{}: there is no journal of stream '{stream}'", folder.display()),
            Some(first) => {
                format!("position {from} of '{stream}' no longer exists; the first one is {first}")
            }
        };
        return Err(Cause::user(text));
    };
    // Those of today, which older segments may lack.
    let newest = walk.newest_head()?;
    let schema = schema_of(&newest).map_err(|reason| damaged(walk.path(), 0, reason))?;
    let decoder =
        RowDecoder::new(schema.clone(), schema).and_then(|decoder| decoder.of_segment(&head.identity));
    let decoder = decoder.map_err(|reason| damaged(walk.path(), 0, reason))?;
    Ok(Records::new(walk, decoder, from))
}

/// The logged cuts in order, up to one that is torn or being written.
///
/// # Errors
/// If it is not a journal's folder, if a segment or a cut cannot be read, or if cuts are missing in between.
///
/// ```
/// # use tidemill_core::{Cut, CutLog as _};
/// # use tidemill_journal::{Journal, inspect};
/// # let folder = tempfile::tempdir()?;
/// # let journal = Journal::open(folder.path())?;
/// journal.cuts()?.append(&Cut { positions: vec![7], ..Cut::first() })?;
/// assert_eq!(inspect::cuts(folder.path())?[0].positions, [7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cuts(folder: &Path) -> Result<Vec<Cut>, Cause> {
    cuts_on(&Disk, folder)
}

/// [`cuts`] on another medium.
///
/// # Errors
/// As [`cuts`].
pub fn cuts_on(medium: &dyn Medium, folder: &Path) -> Result<Vec<Cut>, Cause> {
    refuse_others(medium, folder)?;
    let folder = layout::cuts(&current_query::folder_of(medium, folder)?);
    let mut cuts = Vec::new();
    let firsts = segments(medium, &folder)?;
    for (at, first) in firsts.iter().enumerate() {
        let (_, mut scan) = open_segment(medium, &folder, *first)?;
        let end = loop {
            let found = match scan.next()? {
                Next::Record(found) => found,
                end => break end,
            };
            let cut = decode_cut(&mut Fields(&found.bytes[found.head.content()]));
            cuts.push(cut.map_err(|_| damaged(&scan.path, found.offset, "this is not a cut"))?);
        };
        // Only the newest one may be torn or being written.
        if let Some(next) = firsts.get(at + 1).filter(|next| **next != scan.position) {
            return Err(missing(&scan, &end, *next));
        }
    }
    Ok(cuts)
}

/// Records are missing before a segment.
fn missing(scan: &Scan, end: &Next, next: u64) -> Cause {
    let reason = match end {
        Next::Bad(reason) => (*reason).to_owned(),
        Next::Record(_) | Next::End => format!("positions {} to {next} are missing", scan.position),
    };
    damaged(&scan.path, scan.offset, reason)
}

fn schema_of(head: &SegmentHead) -> Result<SchemaRef, String> {
    decode_schema(&head.identity).map(Into::into)
}

fn decoder_of(head: &SegmentHead) -> Result<RowDecoder, String> {
    schema_of(head).and_then(|schema| RowDecoder::new(schema.clone(), schema))
}

fn open_segment(medium: &dyn Medium, folder: &Path, first: u64) -> Result<(SegmentHead, Scan), Cause> {
    let path = folder.join(segment_name(first));
    let file = medium.open(&path, false).map_err(|error| failed("open", &path, error))?;
    let head = read_head(&path, &*file, usize::MAX)?;
    if head.first != first {
        return Err(damaged(&path, 21, format!("its first position is {}", head.first)));
    }
    let scan = Scan::new(path, file, head.bytes, first)?;
    Ok((head, scan))
}

fn segments(medium: &dyn Medium, folder: &Path) -> Result<Vec<u64>, Cause> {
    Ok(segment_positions(&sorted_names(medium, folder)?))
}

fn snapshot_cycles(medium: &dyn Medium, folder: &Path) -> Result<Vec<u64>, Cause> {
    SnapshotFolder::cycles_on(medium, &layout::snapshots(folder))
}

fn sorted_names(medium: &dyn Medium, folder: &Path) -> Result<Vec<String>, Cause> {
    let mut names = medium.names(folder).map_err(|error| failed("list", folder, error))?;
    names.sort_unstable();
    Ok(names)
}
