//! A file of letters: lines of JSON, each with its version, which are appended and forced to disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tidemill_core::Cause;

/// The largest file. Who refuses more than that needs someone to look at it.
pub(super) const BYTES_MAX: u64 = 64 << 20;
/// The version of a line.
pub(super) const VERSION: u64 = 1;
/// What each line begins with.
const HEAD: &str = "{\"version\":";

/// A file that one writer has locked.
pub(super) struct LetterFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Drop for LetterFile {
    fn drop(&mut self) {
        // A child process that was just started has the file open, too, until it executes its program: closing it here
        // would not end the lock.
        let _ = self.file.unlock();
    }
}

impl LetterFile {
    /// Opens or creates the file, and returns what `letter` makes of its lines. What a crash has left behind them is cut
    /// off.
    ///
    /// # Errors
    /// [`Cause::user`] if the file cannot be opened, is in use, or has a line of which `letter` makes nothing.
    pub fn open<L>(path: &Path, letter: impl Fn(&str) -> Option<L>) -> Result<(LetterFile, Vec<L>), Cause> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(|error| unusable(path, &error.to_string()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(unusable(
                    path,
                    "another source or sink, or another run is writing to it; give each its own file",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(path, &error.to_string())),
        }
        let (letters, bytes) = read(path, &mut file, letter)?;
        let mut letter_file = LetterFile { path: path.to_owned(), file, bytes };
        letter_file.cut().map_err(|error| letter_file.unwritten(&error))?;
        Ok((letter_file, letters))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long it is.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Which file it is: its device and number.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        self.file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// Whether this many more bytes may be appended.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes + bytes as u64 <= BYTES_MAX
    }

    /// Appends lines and forces them to disk.
    ///
    /// # Errors
    /// If that fails; it is then as before.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(lines).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.cut()?;
            return Err(error);
        }
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// Removes what is behind the letters.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes).and_then(|()| self.file.seek(SeekFrom::Start(self.bytes))).map(drop)
    }

    /// The error of a write.
    pub fn unwritten(&self, error: &io::Error) -> Cause {
        Cause::operation(format!("cannot write dead letters to '{}': {error}", self.path.display()))
    }
}

/// A line of a version that can be read, as JSON.
pub(super) fn parsed(line: &str) -> Option<serde_json::Value> {
    let letter: serde_json::Value = serde_json::from_str(line).ok()?;
    let version = letter.get("version").and_then(serde_json::Value::as_u64);
    (version == Some(VERSION)).then_some(letter)
}

/// What `letter` makes of the lines of the file, and where they end. What a crash has left behind them is not counted.
fn read<L>(path: &Path, file: &mut File, letter: impl Fn(&str) -> Option<L>) -> Result<(Vec<L>, u64), Cause> {
    let mut text = Vec::new();
    // One byte more, so that a file that is too large is noticed.
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| unusable(path, &error.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(unusable(path, &format!("it has more than {} MiB; move it away", BYTES_MAX >> 20)));
    }
    let (mut lines, mut end, mut place) = (Vec::new(), 0, 0);
    let mut bad = None;
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        place += line.len();
        let whole = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        match (whole.and_then(&letter), bad) {
            (Some(letter), None) => {
                lines.push(letter);
                end = place;
            }
            (Some(_), Some(bad)) => return Err(other_content(path, bad)),
            (None, _) => bad = bad.or(Some(number + 1)),
        }
    }
    match bad {
        Some(bad) if !is_torn(&text[end..]) => Err(other_content(path, bad)),
        _ => Ok((lines, end as u64)),
    }
}

/// Whether a crash may have left this: the beginning of a line, or zeros in place of what was not on the disk yet.
fn is_torn(rest: &[u8]) -> bool {
    let is_begun = rest.iter().zip(HEAD.as_bytes()).all(|(byte, expected)| byte == expected);
    rest.contains(&0) || (is_begun && !rest.contains(&b'\n'))
}

fn other_content(path: &Path, line: usize) -> Cause {
    let reason = "is not a dead letter that this version can read; choose another file";
    unusable(path, &format!("line {line} {reason}"))
}

fn unusable(path: &Path, reason: &str) -> Cause {
    Cause::user(format!("dead_letters = '{}': {reason}", path.display()))
}
