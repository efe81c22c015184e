//! One text file that is followed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};

use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::entry::Entry;
use super::failure::failed;
use super::offset::{FileOffset, identity, read_piece};
use super::text_progress::{GrowingFingerprints, RowsRead, TextProgress, begin_at};
use crate::file::gzip_read::begins_gzip;
use crate::file::zstd_read::begins_zstd;
use crate::formats::{Format, RecordDecoder, TextShape, Waiting};

/// A text file, with how far it was read and the incomplete part of its last line.
pub(super) struct FollowedText {
    file: Option<File>,
    decoder: Box<dyn RecordDecoder>,
    /// Where to begin; taken when it is first opened.
    start: Option<FileOffset>,
    track: TextProgress,
    prints: GrowingFingerprints,
    /// How far it had been read when it was emptied, until this is taken.
    emptied: Option<FileOffset>,
}

/// The result of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// This many bytes were read.
    Read(usize),
    /// Nothing more is there at the moment.
    AtEnd,
    /// Its path leads to another file now.
    Displaced,
    /// It was emptied or rewritten, and will be read from its start.
    Emptied,
    /// It cannot be followed, for this reason.
    Unfollowable(&'static str),
}

impl FollowedText {
    /// A file that is read from its start, or from where an earlier run stopped.
    pub(super) fn new(decoder: Box<dyn RecordDecoder>, start: FileOffset) -> FollowedText {
        let track = TextProgress::start();
        let start = Some(start);
        FollowedText {
            file: None,
            decoder,
            start,
            track,
            prints: GrowingFingerprints::default(),
            emptied: None,
        }
    }

    /// Reads and decodes the next bytes.
    pub(super) fn read(
        &mut self,
        entry: &Entry,
        format: &Format,
        block: &mut [u8],
        keep_open: bool,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
    ) -> Result<ReadOutcome, Cause> {
        let look = self.ready(entry, faults)?;
        if look != ReadOutcome::AtEnd || self.file.is_none() {
            return Ok(look);
        }
        let count = self.read_bytes(entry, block)?;
        if count == 0 {
            if !keep_open {
                self.file = None;
            }
            return Ok(if is_displaced(entry)? { ReadOutcome::Displaced } else { ReadOutcome::AtEnd });
        }
        if self.track.decoded == 0
            && let Some(reason) = unfollowable(&block[..count], format)
        {
            return Ok(ReadOutcome::Unfollowable(reason));
        }
        self.decode(entry, &block[..count], given)?;
        faults.merge(self.decoder.faults());
        Ok(ReadOutcome::Read(count))
    }

    fn decode(&mut self, entry: &Entry, bytes: &[u8], given: &mut VecDeque<RowsRead>) -> Result<(), Cause> {
        let mut batches = VecDeque::new();
        self.prints.extend(bytes);
        let bytes = self.track.written(bytes);
        self.decoder.decode(bytes, &mut batches)?;
        let (waiting, prints) = (self.decoder.waiting(), self.prints.prints());
        self.track.take(bytes.len() as u64, waiting, batches, |rows, track| {
            given.push_back(RowsRead { rows, offset: Some(entry.offset(track, prints, false)) });
        });
        Ok(())
    }

    /// Takes a last record that has no line end, because nothing more will come.
    pub(super) fn finish(
        &mut self,
        entry: &Entry,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
    ) -> Result<(), Cause> {
        let mut batches = VecDeque::new();
        self.decoder.finish(&mut batches)?;
        faults.merge(self.decoder.faults());
        let (line, prints) = (self.track.line, self.prints.prints());
        self.track.take(0, Some(Waiting { bytes: 0, line }), batches, |rows, track| {
            given.push_back(RowsRead { rows, offset: Some(entry.offset(track, prints, true)) });
        });
        Ok(())
    }

    /// How far it had been read when it was emptied, once.
    pub(super) fn take_emptied(&mut self) -> Option<FileOffset> {
        self.emptied.take()
    }

    /// How far it was read, marked complete because nothing more will come.
    pub(super) fn last_offset(&self, entry: &Entry) -> FileOffset {
        match &self.start {
            Some(start) => start.clone(),
            None => entry.file_offset(&self.track, self.prints.prints(), true),
        }
    }

    /// Whether no name leads to it any more.
    pub(super) fn is_deleted(&self) -> bool {
        self.file
            .as_ref()
            .is_some_and(|file| file.metadata().is_ok_and(|metadata| link_count(&metadata) == 0))
    }

    /// Opens the file, or checks what has happened to it since it was last read. `AtEnd` with an open file: there may be
    /// something to read.
    fn ready(&mut self, entry: &Entry, faults: &mut Faults) -> Result<ReadOutcome, Cause> {
        if self.file.is_none() && self.start.is_none() && !self.has_changed_length(entry)? {
            return Ok(if is_displaced(entry)? { ReadOutcome::Displaced } else { ReadOutcome::AtEnd });
        }
        if self.file.is_none() {
            let look = self.open(entry, faults)?;
            if look != ReadOutcome::AtEnd || self.file.is_none() {
                return Ok(look);
            }
        }
        self.check_growth(entry, faults)
    }

    fn open(&mut self, entry: &Entry, faults: &mut Faults) -> Result<ReadOutcome, Cause> {
        let place = entry.path.display().to_string();
        let failed = |error: std::io::Error| failed(&place, error);
        let mut file = match File::open(&entry.path) {
            Ok(file) => file,
            // It was replaced at this moment: the next look finds the new one.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ReadOutcome::AtEnd),
            Err(error) => return Err(failed(error)),
        };
        if identity(&file.metadata().map_err(failed)?) != entry.identity {
            return Ok(ReadOutcome::Displaced);
        }
        if let Some(mut start) = self.start.take() {
            // Since it was found, another file may have taken its name and its inode.
            if !start.prints.are_of(&mut file).map_err(failed)? {
                faults.notice(format!("{place}: the file was replaced; reading begins at its start"));
                start = FileOffset::start(entry.path.clone(), entry.identity);
            }
            self.begin(&place, &mut file, &start)?;
        }
        file.seek(SeekFrom::Start(self.track.decoded)).map_err(failed)?;
        self.file = Some(file);
        Ok(ReadOutcome::AtEnd)
    }

    /// Begins at a place in the file.
    fn begin(&mut self, place: &str, file: &mut File, start: &FileOffset) -> Result<(), Cause> {
        self.track = TextProgress::at(start);
        self.prints = GrowingFingerprints::default();
        let mut failed = |error: std::io::Error| failed(place, error);
        if start.offset > 0 {
            self.prints = GrowingFingerprints::read(file, start.offset).map_err(&mut failed)?;
        }
        file.rewind().map_err(&mut failed)?;
        begin_at(&mut *self.decoder, place, &self.track, |target| file.read(target).map_err(&mut failed))?;
        Ok(())
    }

    /// Whether a closed file should be checked again.
    fn has_changed_length(&self, entry: &Entry) -> Result<bool, Cause> {
        match entry.path.metadata() {
            Ok(metadata) => Ok(identity(&metadata) == entry.identity && metadata.len() != self.track.decoded),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&entry.path.display().to_string(), error)),
        }
    }

    /// If it was truncated or rewritten, it is read from its start. That is checked before each block, not only once the end
    /// was reached: a file may be emptied and grow again before its end is seen.
    fn check_growth(&mut self, entry: &Entry, faults: &mut Faults) -> Result<ReadOutcome, Cause> {
        let Some(file) = &mut self.file else { return Ok(ReadOutcome::AtEnd) };
        let place = entry.path.display().to_string();
        let failed = |error: std::io::Error| failed(&place, error);
        let (length, tail) = (file.metadata().map_err(failed)?.len(), self.prints.tail());
        let what = if length < self.track.decoded {
            "truncated"
        } else if length > self.track.decoded {
            let start = self.track.decoded - tail.len() as u64;
            let found = read_piece(file, start, tail.len() as u64).map_err(failed)?;
            if found == tail {
                file.seek(SeekFrom::Start(self.track.decoded)).map_err(failed)?;
                return Ok(ReadOutcome::AtEnd);
            }
            "rewritten"
        } else {
            return Ok(ReadOutcome::AtEnd);
        };
        faults.notice(format!("{place}: the file was {what}; reading continues at its start"));
        file.rewind().map_err(failed)?;
        self.decoder.begin_again(&place);
        let before = entry.file_offset(&self.track, self.prints.prints(), false);
        self.emptied = Some(before);
        (self.track, self.prints) = (TextProgress::start(), GrowingFingerprints::default());
        Ok(ReadOutcome::Emptied)
    }

    fn read_bytes(&mut self, entry: &Entry, block: &mut [u8]) -> Result<usize, Cause> {
        let Some(file) = &mut self.file else { return Ok(0) };
        loop {
            match file.read(block) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&entry.path.display().to_string(), error)),
                Ok(count) => return Ok(count),
            }
        }
    }
}

/// Why a file that begins like this cannot be followed: its bytes are not those of its lines.
fn unfollowable(start: &[u8], format: &Format) -> Option<&'static str> {
    if begins_zstd(start) || begins_gzip(start) {
        return Some("a compressed file cannot be followed; decompress it");
    }
    // Without a newline it does not show yet how lines end, but the first of two CRs is not half of CR LF. A program
    // that shows its progress writes them into one line of a log.
    let returns = memchr::memchr_iter(b'\r', start).filter(|at| at + 1 < start.len()).count();
    let is_whole = *format != Format::Lines && returns > 1;
    TextShape::of(start, is_whole, format).flatten().map(|shape| shape.why_not_followed())
}

/// Whether the path leads to another file by now.
fn is_displaced(entry: &Entry) -> Result<bool, Cause> {
    if entry.is_gone {
        return Ok(false);
    }
    match entry.path.metadata() {
        Ok(metadata) => Ok(identity(&metadata) != entry.identity),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(&entry.path.display().to_string(), error)),
    }
}

#[cfg(unix)]
fn link_count(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn link_count(_metadata: &std::fs::Metadata) -> u64 {
    0
}
