//! Following files: data that is appended to them, and new files of a directory or a pattern.
//!
//! A file is identified by its inode, whatever its name. A renamed file continues to be read. If another file takes
//! over its name, the old file is first read to its end, even if no name that is read leads to it any more. A truncated
//! file is read from its start. Both are reported as notices, because rotation loses nothing. Parquet and Arrow IPC
//! files are read once each, as soon as they are complete. A compressed file among several is left out, with a notice.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Progress, SourceOffset, SourceOffsets};

use super::attention::{Attention, ListedFile};
use super::copies::{CopyCheck, EmptiedFiles, FilesByName};
use super::entry::Entry;
use super::follow_columns::{ColumnsRequest, FollowedColumns};
use super::follow_text::{FollowedText, ReadOutcome};
use super::listing::{is_single, list};
use super::offset::{FileIdentity, FileOffset, identity};
use super::pipe::BLOCK_BYTES;
use super::settings::FileSettings;
use super::text_progress::RowsRead;
use super::unfollowed_files::{UnfollowedFiles, renamed};
use crate::formats::{DecoderSettings, Format, RecordDecoder, project, text_decoder};

/// How long it waits before it checks again.
const PAUSE: Duration = Duration::from_millis(10);
/// The most files that are held open at their ends.
const OPEN_MAX: usize = 256;

/// The existing files in the order of their names, and what each looks like by its identity.
type Listing = (Vec<(PathBuf, FileIdentity)>, HashMap<(u64, u64), Appearance>);

/// The files of a source that does not end.
pub(super) struct Follower {
    settings: FileSettings,
    format: Format,
    declared: SchemaRef,
    projection: Vec<usize>,
    keeps_bad_records: bool,
    files: Vec<Followed>,
    remembered: UnfollowedFiles,
    emptied: EmptiedFiles,
    /// Whether a file may be a copy that is still being written, so that all are listed again soon.
    is_one_undecided: bool,
    /// Whether it has reported that nothing is there.
    has_told: bool,
    /// Whether the files of an earlier run were searched for under names that are not read.
    has_looked_elsewhere: bool,
    next_part: u64,
    /// Where files begin of which some rows are known: before any of their rows.
    begun: Vec<SourceOffset>,
    /// Offsets that changed without rows.
    changed: Vec<SourceOffset>,
    attention: Attention,
    /// What the files looked like when they were listed last.
    appearances: HashMap<(u64, u64), Appearance>,
    /// The next file to read. Each is read to its end before the next one's turn.
    turn: usize,
    next_scan: Instant,
    /// The next scan may be from then on.
    scan_from: Instant,
    block: Vec<u8>,
    done_bytes: u64,
}

/// The length of a file, and when it was written last.
type Appearance = (u64, Option<SystemTime>);

struct Followed {
    entry: Entry,
    reader: Reader,
}

enum Reader {
    Text(Box<FollowedText>),
    Columns(Box<FollowedColumns>),
    /// It cannot be followed. It stays known as long as it is there, so that this is said once.
    LeftOut,
    /// Whether it may be dropped.
    Ended,
}

impl Follower {
    pub(super) fn open(settings: FileSettings, declared: SchemaRef) -> Result<Follower, Cause> {
        let format = settings.known_format()?;
        if !format.is_text() && is_single(&settings.path) {
            return Err(Cause::user(format!(
                "{}: a {format:?} file cannot be followed, because it never grows; follow its directory",
                settings.path
            )));
        }
        let projection = (0..declared.fields().len()).collect();
        let follower = Follower {
            settings,
            format,
            declared,
            projection,
            keeps_bad_records: false,
            files: Vec::new(),
            remembered: UnfollowedFiles::default(),
            emptied: EmptiedFiles::default(),
            is_one_undecided: false,
            has_told: false,
            has_looked_elsewhere: false,
            next_part: 0,
            begun: Vec::new(),
            changed: Vec::new(),
            attention: Attention::default(),
            appearances: HashMap::new(),
            turn: 0,
            next_scan: Instant::now(),
            scan_from: Instant::now(),
            block: Vec::new(),
            done_bytes: 0,
        };
        if follower.format.is_text() {
            follower.decoder()?;
        }
        Ok(follower)
    }

    /// Resumes where earlier runs stopped.
    pub(super) fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        self.remembered = UnfollowedFiles::of(offsets)?;
        self.next_part = self.remembered.last_part().map_or(0, |part| part + 1);
        Ok(())
    }

    /// Where files have begun since this was last asked. It comes before the offsets of rows.
    pub(super) fn take_begun(&mut self) -> Vec<SourceOffset> {
        std::mem::take(&mut self.begun)
    }

    /// Offsets that changed without rows since this was last asked.
    pub(super) fn take_changed(&mut self) -> Vec<SourceOffset> {
        let forgotten = self.remembered.take_forgotten();
        self.changed.extend(forgotten.into_iter().map(|part| SourceOffset { part, at: None }));
        std::mem::take(&mut self.changed)
    }

    fn decoder(&self) -> Result<Box<dyn RecordDecoder>, Cause> {
        let settings = DecoderSettings {
            schema: self.declared.clone(),
            csv: self.settings.csv.clone(),
            batch_rows: self.settings.batch_rows,
        };
        let mut decoder = text_decoder(self.format.clone(), settings)?;
        decoder.set_projection(&self.projection)?;
        if self.settings.may_have_other_keys() {
            decoder.report_other_keys();
        }
        if self.keeps_bad_records {
            decoder.keep_bad_records();
        }
        Ok(decoder)
    }

    pub(super) fn set_projection(&mut self, columns: &[usize]) -> Result<SchemaRef, Cause> {
        self.projection = columns.to_vec();
        project(&self.declared, columns)
    }

    pub(super) fn keep_bad_records(&mut self) {
        self.keeps_bad_records = true;
    }

    /// Reads until there are rows, or the time is up.
    pub(super) fn read(
        &mut self,
        wait: Duration,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
    ) -> Result<(), Cause> {
        let start = Instant::now();
        loop {
            if self.attention.hear() {
                self.next_scan = self.next_scan.min(self.scan_from);
            }
            if Instant::now() >= self.next_scan {
                self.scan(faults)?;
            }
            self.look_at_new(faults)?;
            let has_read = self.round(given, faults)?;
            let left = wait.saturating_sub(start.elapsed());
            if !given.is_empty() || left.is_zero() {
                return Ok(());
            }
            if !has_read {
                std::thread::sleep(PAUSE.min(left));
            }
        }
    }

    /// Checks which files exist, and under which names.
    fn scan(&mut self, faults: &mut Faults) -> Result<(), Cause> {
        let start = Instant::now();
        if self.settings.watch {
            self.attention.listen(&self.settings.path);
        }
        let (listed, appearances) = self.listed()?;
        let present: HashSet<(u64, u64)> = listed.iter().filter_map(|(_, own)| *own).collect();
        self.tell_if_missing(&listed, faults);
        self.find_known(&listed, faults);
        if !self.has_looked_elsewhere {
            // The folder may not be there yet.
            self.has_looked_elsewhere = !listed.is_empty();
            for (part, path) in self.remembered.elsewhere(&present)? {
                let Some(offset) = self.remembered.remove(part) else { continue };
                let entry = Entry { part, path, identity: offset.identity, is_gone: true };
                self.add(entry, offset)?;
            }
        }
        self.find_new(listed, &present, faults)?;
        if self.has_looked_elsewhere {
            self.remembered.forget_oldest();
        }
        // Looking through a huge directory may not take more than a twentieth of the time.
        let took = start.elapsed();
        self.scan_from = Instant::now() + (took * 20).max(PAUSE * 5);
        let before = std::mem::replace(&mut self.appearances, appearances);
        let files = self.files.iter().map(|Followed { entry, .. }| {
            let looks = |listed: &HashMap<_, Appearance>| listed.get(&entry.identity?).copied();
            let now = looks(&self.appearances);
            let is_as_before = !entry.is_gone && now.is_some() && now == looks(&before);
            ListedFile { path: &entry.path, part: entry.part, is_as_before }
        });
        self.next_scan =
            self.attention.listed(files, took).map_or(self.scan_from, |wait| Instant::now() + wait);
        if self.is_one_undecided {
            self.next_scan = self.scan_from;
        }
        Ok(())
    }

    /// Begins with files that have just come. If one may be a known one that has come back, all are looked at.
    fn look_at_new(&mut self, faults: &mut Faults) -> Result<(), Cause> {
        let start = Instant::now();
        let paths = self.attention.take_new();
        if paths.is_empty() {
            return Ok(());
        }
        if self.remembered.offsets().next().is_some() {
            self.next_scan = self.next_scan.min(self.scan_from);
            return Ok(());
        }
        let with_identity = |path: PathBuf| path.metadata().ok().map(|metadata| (path, identity(&metadata)));
        let listed = paths.into_iter().filter_map(with_identity).collect();
        self.find_new(listed, &HashSet::new(), faults)?;
        if self.is_one_undecided {
            self.next_scan = self.next_scan.min(self.scan_from);
        }
        self.attention.looked(start.elapsed());
        Ok(())
    }

    /// Reports once that nothing exists at the path, which may be misspelt. An empty folder counts as existing.
    fn tell_if_missing(&mut self, listed: &[(PathBuf, FileIdentity)], faults: &mut Faults) {
        let path = &self.settings.path;
        if !std::mem::replace(&mut self.has_told, true) && listed.is_empty() && !Path::new(path).is_dir() {
            faults.notice(format!(
                "{path}: nothing exists there yet; Tidemill waits and reads it as soon as it appears"
            ));
        }
    }

    /// The existing files, in the order of their names, and what they look like.
    fn listed(&self) -> Result<Listing, Cause> {
        let paths = if !is_single(&self.settings.path) {
            list(&self.settings.path)?
        } else if self.settings.is_pipe() {
            // A pipe that came later would be waited for when it is opened.
            Vec::new()
        } else {
            vec![PathBuf::from(&self.settings.path)]
        };
        // A file that has disappeared since then is missing.
        let mut appearances = HashMap::new();
        let with_identity = |path: PathBuf| {
            let metadata = path.metadata().ok()?;
            let own = identity(&metadata);
            own.map(|own| appearances.insert(own, (metadata.len(), metadata.modified().ok())));
            Some((path, own))
        };
        let listed = paths.into_iter().filter_map(with_identity).collect();
        Ok((listed, appearances))
    }

    /// Finds the followed files again, under other names if necessary. A file is gone if no name leads to it, or if
    /// another file has its name.
    fn find_known(&mut self, listed: &[(PathBuf, FileIdentity)], faults: &mut Faults) {
        let by_path: HashMap<&PathBuf, FileIdentity> =
            listed.iter().map(|(path, own)| (path, *own)).collect();
        let mut by_identity = HashMap::new();
        for (path, own) in listed.iter().rev() {
            own.map(|own| by_identity.insert(own, path));
        }
        for Followed { entry, .. } in &mut self.files {
            let at_path = by_path.get(&entry.path).copied();
            if at_path == Some(entry.identity) {
                entry.is_gone = false;
            } else if let Some(path) = entry.identity.and_then(|own| by_identity.get(&own)) {
                entry.path = (*path).clone();
                entry.is_gone = false;
            } else if !entry.is_gone {
                entry.is_gone = true;
                if at_path.is_some() {
                    let place = entry.path.display();
                    faults.notice(format!(
                        "{place}: the file was replaced; reading continues with the new one"
                    ));
                }
                if let Some(path) = renamed(&entry.path, entry.identity) {
                    entry.path = path;
                }
            }
        }
    }

    /// Begins to follow files that are not followed yet: where earlier runs stopped, or from their starts. A file with
    /// several names is one file.
    fn find_new(
        &mut self,
        listed: Vec<(PathBuf, FileIdentity)>,
        present: &HashSet<(u64, u64)>,
        faults: &mut Faults,
    ) -> Result<(), Cause> {
        self.is_one_undecided = false;
        let entries = || self.files.iter().map(|file| &file.entry);
        let mut identities: HashSet<(u64, u64)> = entries().filter_map(|entry| entry.identity).collect();
        let paths: HashSet<PathBuf> =
            entries().filter(|entry| entry.identity.is_none()).map(|entry| entry.path.clone()).collect();
        let mut by_name = FilesByName::default();
        let there = entries().enumerate().filter(|(_, entry)| !entry.is_gone);
        there.for_each(|(file, entry)| by_name.add(&entry.path, file));
        for (path, own) in listed {
            let is_followed = own.map_or_else(|| paths.contains(&path), |own| !identities.insert(own));
            if is_followed {
                continue;
            }
            let known = self.remembered.take(&path, own, present, faults)?;
            self.remembered.take_emptied().into_iter().for_each(|offset| self.emptied.note(offset));
            let (part, offset) = match known {
                Some(known) => known,
                None => match self.new_offset(&path, own, &by_name)? {
                    Some(offset) => {
                        self.next_part += 1;
                        (self.next_part - 1, offset)
                    }
                    None => continue,
                },
            };
            by_name.add(&path, self.files.len());
            self.add(Entry { part, path, identity: own, is_gone: false }, offset)?;
        }
        Ok(())
    }

    /// Where a new file is begun: at its start, or in a copy behind what was read. `None`: not yet.
    fn new_offset(
        &mut self,
        path: &Path,
        own: FileIdentity,
        by_name: &FilesByName,
    ) -> Result<Option<FileOffset>, Cause> {
        let followed = by_name.originals(path).into_iter().map(|file| &self.files[file]);
        let followed = followed.filter_map(|file| match &file.reader {
            Reader::Text(text) if !file.entry.is_gone => Some(text.last_offset(&file.entry)),
            _ => None,
        });
        Ok(match self.emptied.copy_at(path, followed)? {
            CopyCheck::No => Some(FileOffset::start(path.to_owned(), own)),
            CopyCheck::Unfinished => {
                self.is_one_undecided = true;
                None
            }
            CopyCheck::Of(offset) => {
                let offset =
                    FileOffset { path: path.to_owned(), identity: own, is_complete: false, ..offset };
                // With the next rows, whichever file they are of: they may be the first behind the old ones of the original.
                self.begun.push(SourceOffset { part: self.next_part, at: Some(offset.encode()) });
                Some(offset)
            }
        })
    }

    fn add(&mut self, entry: Entry, offset: FileOffset) -> Result<(), Cause> {
        let reader = if self.format.is_text() {
            Reader::Text(Box::new(FollowedText::new(self.decoder()?, offset)))
        } else {
            Reader::Columns(Box::new(FollowedColumns::new(offset)))
        };
        self.attention.begin(&entry.path, entry.part);
        self.files.push(Followed { entry, reader });
        Ok(())
    }

    /// Gives each file its turn, until one has rows. True if something was read.
    fn round(&mut self, given: &mut VecDeque<RowsRead>, faults: &mut Faults) -> Result<bool, Cause> {
        let (mut has_read, mut has_ended) = (false, false);
        if self.attention.quiet() == self.files.len() {
            return Ok(false);
        }
        for _ in 0..self.files.len() {
            if self.attention.is_quiet(self.files[self.turn].entry.part) {
                self.turn = (self.turn + 1) % self.files.len();
                continue;
            }
            let is_at_end = self.read_file(self.turn, given, faults)?;
            has_read |= !is_at_end;
            has_ended |= matches!(self.files[self.turn].reader, Reader::Ended);
            if is_at_end {
                self.turn = (self.turn + 1) % self.files.len();
            }
            if !given.is_empty() {
                break;
            }
        }
        if has_ended {
            self.files.retain(|file| !matches!(file.reader, Reader::Ended));
            self.turn = 0;
        }
        Ok(has_read)
    }

    /// Reads a piece of a file. True if there is nothing more at the moment.
    fn read_file(
        &mut self,
        at: usize,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
    ) -> Result<bool, Cause> {
        let keep_open = self.files.len() <= OPEN_MAX;
        let Followed { entry, reader } = &mut self.files[at];
        match reader {
            Reader::Text(text) => {
                self.block.resize(BLOCK_BYTES, 0);
                match text.read(entry, &self.format, &mut self.block, keep_open, given, faults)? {
                    ReadOutcome::Read(count) => {
                        self.done_bytes += count as u64;
                        return Ok(false);
                    }
                    ReadOutcome::Displaced => self.next_scan = Instant::now(),
                    ReadOutcome::Unfollowable(reason) if is_single(&self.settings.path) => {
                        return Err(Cause::user(format!("{}: {reason}", entry.path.display())));
                    }
                    ReadOutcome::Unfollowable(reason) => {
                        let place = entry.path.display();
                        faults.notice(format!("{place}: {reason}; its rows are left out"));
                        *reader = Reader::LeftOut;
                    }
                    ReadOutcome::Emptied => {
                        // If it was copied before, the copy must be found before reading continues.
                        text.take_emptied().into_iter().for_each(|offset| self.emptied.note(offset));
                        self.next_scan = Instant::now();
                    }
                    ReadOutcome::AtEnd if entry.is_gone => {
                        text.finish(entry, given, faults)?;
                        self.end(at);
                    }
                    ReadOutcome::AtEnd => self.attention.at_end(&entry.path, entry.part, !keep_open),
                }
                Ok(true)
            }
            Reader::Columns(columns) => {
                let wanted = ColumnsRequest {
                    format: &self.format,
                    declared: &self.declared,
                    projection: &self.projection,
                    batch_rows: self.settings.batch_rows,
                };
                let was_done = columns.is_done();
                let has_read = columns.read(entry, &wanted, given, faults, &mut self.done_bytes)?;
                if let (false, Some(offset)) = (was_done, columns.last_offset()) {
                    self.changed.push(SourceOffset { part: entry.part, at: Some(offset.encode()) });
                }
                let is_over = columns.is_done() || !has_read;
                if is_over && entry.is_gone {
                    self.end(at);
                } else if is_over && columns.is_done() {
                    self.attention.at_end(&entry.path, entry.part, false);
                }
                Ok(!has_read)
            }
            Reader::LeftOut => {
                if entry.is_gone {
                    self.attention.end(entry.part);
                    *reader = Reader::Ended;
                } else {
                    self.attention.at_end(&entry.path, entry.part, true);
                }
                Ok(true)
            }
            Reader::Ended => Ok(true),
        }
    }

    /// A file that is gone was read to its end. If it was moved and not deleted, it may come back.
    fn end(&mut self, at: usize) {
        let Followed { entry, reader } = &mut self.files[at];
        let offset = match reader {
            Reader::Text(text) if text.is_deleted() => None,
            Reader::Text(text) => Some(text.last_offset(entry)),
            Reader::Columns(columns) => columns.last_offset().cloned(),
            Reader::LeftOut | Reader::Ended => None,
        };
        *reader = Reader::Ended;
        let part = entry.part;
        self.attention.end(part);
        self.changed.push(SourceOffset { part, at: offset.as_ref().map(FileOffset::encode) });
        if let Some(offset) = offset {
            self.remembered.insert(part, offset);
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.done_bytes, total: None }
    }
}
