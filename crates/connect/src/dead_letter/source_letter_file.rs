//! A file of records that a source could not read.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use arrow_array::temporal_conversions::timestamp_ns_to_datetime;
use serde_json::Value;
use tidemill_core::{BadRecord, BadRecords, Cause, Clock, RecordContent, TimeOfDay};

use super::letter_file::{BYTES_MAX, LetterFile, VERSION, parsed};

/// What stands before the time, which is the only part in which a letter that comes again differs.
const BEFORE_TIME: &str = ",\"time\":\"";

/// The records that a source could not read, as JSON, one line each: version, source, place, reason, the record or the
/// row, and the time.
pub struct SourceLetterFile {
    file: LetterFile,
    path: PathBuf,
    source: String,
    /// Letters of earlier runs that may come again, by hash, and how often each is there.
    earlier: HashMap<u64, u32>,
    hasher: RandomState,
    left_out: u64,
}

impl SourceLetterFile {
    /// Opens or creates the file for this source. If it `comes_again`, which means that a run may read records once more
    /// that an earlier one has read, letters that are there already are not written again.
    ///
    /// # Errors
    /// [`Cause::user`] if the file cannot be opened, is in use, or holds something else.
    pub fn open(path: &Path, source: &str, comes_again: bool) -> Result<SourceLetterFile, Cause> {
        let hasher = RandomState::new();
        let (file, hashes) = LetterFile::open(path, |line| letter_hash(&hasher, line))?;
        let mut earlier = HashMap::new();
        for hash in hashes.into_iter().filter(|_| comes_again) {
            *earlier.entry(hash).or_default() += 1;
        }
        let (path, source) = (path.to_owned(), source.to_owned());
        Ok(SourceLetterFile { file, path, source, earlier, hasher, left_out: 0 })
    }

    /// Appends letters and forces them to disk. A file that was moved away is left, and another one begun. What has no
    /// room is counted ([`SourceLetterFile::left_out`]).
    ///
    /// # Errors
    /// If the file cannot be written; it is then as before.
    pub(super) fn write(&mut self, records: &BadRecords) -> io::Result<()> {
        self.follow_path()?;
        let now_ns = i64::try_from(TimeOfDay.now_ns()).unwrap_or(i64::MAX);
        let mut matched = Vec::new();
        let (mut text, mut left_out) = (String::new(), records.left_out());
        for record in records.kept() {
            let beginning = beginning(&self.source, record);
            let hash = self.hasher.hash_one(&beginning);
            let seen = matched.iter().filter(|earlier| **earlier == hash).count() as u32;
            if self.earlier.get(&hash).is_some_and(|count| *count > seen) {
                matched.push(hash);
                continue;
            }
            let line = format!("{beginning}{BEFORE_TIME}{}\"}}\n", written_time(now_ns));
            if self.file.has_room_for(text.len() + line.len()) { text += &line } else { left_out += 1 }
        }
        self.file.append(text.as_bytes())?;
        for hash in matched {
            if let Some(count) = self.earlier.get_mut(&hash) {
                *count -= 1;
            }
        }
        self.left_out += left_out;
        Ok(())
    }

    /// How many letters had no room so far.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Why letters have no room.
    pub(super) fn full(&self) -> String {
        format!(
            "{} dead letters were left out: '{}' holds at most {} MiB, and {} MiB at a time; move the file away, and \
             another one is begun",
            self.left_out,
            self.path.display(),
            BYTES_MAX >> 20,
            BadRecords::BYTES_MAX >> 20
        )
    }

    /// The error of a write.
    pub(super) fn unwritten(&self, error: &io::Error) -> Cause {
        self.file.unwritten(error)
    }

    /// Begins another file if this one was moved away.
    fn follow_path(&mut self) -> io::Result<()> {
        let there = std::fs::metadata(&self.path);
        let is_ours = match &there {
            Ok(metadata) => (metadata.dev(), metadata.ino()) == self.file.identity()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            // It is written to as long as nobody knows better.
            Err(_) => true,
        };
        if !is_ours {
            let opened = LetterFile::open(&self.path, |line| letter_hash(&self.hasher, line));
            self.file = opened.map_err(|cause| io::Error::other(cause.to_string()))?.0;
        }
        Ok(())
    }
}

/// The hash of what a letter says apart from its time; `None` if a source has not written it.
fn letter_hash(hasher: &RandomState, line: &str) -> Option<u64> {
    parsed(line)?.get("source")?;
    Some(hasher.hash_one(line.rsplit_once(BEFORE_TIME)?.0))
}

/// A letter without its time and its end.
fn beginning(source: &str, record: &BadRecord) -> String {
    let BadRecord { place, reason, content, is_cut } = record;
    let quoted = |text: &str| Value::from(text).to_string();
    let content = match content {
        RecordContent::Row(row) => format!("\"row\":{row}"),
        RecordContent::Text(bytes) => match without_cut_character(bytes, *is_cut) {
            Ok(text) => format!("\"record\":{}", quoted(text)),
            Err(bytes) => {
                format!("\"record\":{},\"escaped\":true", quoted(&bytes.escape_ascii().to_string()))
            }
        },
    };
    let cut = if *is_cut { ",\"cut\":true" } else { "" };
    format!(
        "{{\"version\":{VERSION},\"source\":{},\"place\":{},\"reason\":{},{content}{cut}",
        quoted(source),
        quoted(place),
        quoted(reason)
    )
}

/// The bytes as text, if they are. A character at the end of which only the beginning is kept does not count.
fn without_cut_character(bytes: &[u8], is_cut: bool) -> Result<&str, &[u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).map_err(|_| bytes)
        }
        Err(_) => Err(bytes),
    }
}

fn written_time(time_ns: i64) -> String {
    let time = timestamp_ns_to_datetime(time_ns);
    time.map_or_else(|| time_ns.to_string(), |time| time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &[(u64, &[u8])]) -> BadRecords {
        let mut records = BadRecords::default();
        for (line, text) in lines {
            records.add(format!("f.csv, line {line}"), "it is \"bad\"".into(), text);
        }
        records
    }

    fn letters(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_letter_holds_any_bytes_and_says_if_they_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.ndjson");
        let mut file = SourceLetterFile::open(&path, "s", false).unwrap();
        let long = "☃".repeat(BadRecords::RECORD_BYTES_MAX);
        let mut written = records(&[(1, b"a,\",\"time\":\"x"), (2, b"caf\xe9\0"), (3, long.as_bytes())]);
        written.add_row("s".into(), "too far".into(), "{\"n\":1,\"time\":\"now\"}".into());
        file.write(&written).unwrap();
        let letters = letters(&path);
        assert_eq!(letters[0]["record"], "a,\",\"time\":\"x");
        assert_eq!((&letters[0]["source"], &letters[0]["place"]), (&"s".into(), &"f.csv, line 1".into()));
        assert_eq!((&letters[1]["record"], &letters[1]["escaped"]), (&"caf\\xe9\\x00".into(), &true.into()));
        assert_eq!((&letters[2]["cut"], letters[2].get("escaped")), (&true.into(), None));
        assert_eq!(letters[3]["row"]["time"], "now");
        assert!(letters.iter().all(|letter| letter["time"].as_str().unwrap().ends_with('Z')));
    }

    #[test]
    fn letters_of_earlier_runs_are_there_once_if_they_come_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.ndjson");
        let both = records(&[(1, b"x"), (1, b"x"), (2, b"y")]);
        SourceLetterFile::open(&path, "s", true).unwrap().write(&both).unwrap();
        let mut again = SourceLetterFile::open(&path, "s", true).unwrap();
        again.write(&records(&[(1, b"x"), (1, b"x"), (1, b"x")])).unwrap();
        again.write(&records(&[(2, b"y"), (3, b"y")])).unwrap();
        let places = |letters: Vec<Value>| -> Vec<String> {
            letters.iter().map(|letter| letter["place"].as_str().unwrap()[12..].to_owned()).collect()
        };
        drop(again);
        assert_eq!(places(letters(&path)), ["1", "1", "2", "1", "3"]);
        // What another source sends is always new.
        SourceLetterFile::open(&path, "s", false).unwrap().write(&both).unwrap();
        assert_eq!(letters(&path).len(), 8);
    }

    #[test]
    fn a_full_file_counts_what_it_leaves_out_until_it_is_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.ndjson");
        let mut file = SourceLetterFile::open(&path, "s", false).unwrap();
        let long = vec![b'x'; BadRecords::RECORD_BYTES_MAX];
        let mut written = 0;
        while file.left_out() == 0 {
            let mut block = BadRecords::default();
            (0..500).for_each(|line| block.add(format!("f, line {line}"), "bad".into(), &long));
            written += 500;
            file.write(&block).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= BYTES_MAX);
        assert_eq!(letters(&path).len() as u64 + file.left_out(), written);
        std::fs::rename(&path, folder.path().join("old.ndjson")).unwrap();
        file.write(&records(&[(7, b"x")])).unwrap();
        assert_eq!(letters(&path).len(), 1);
        assert_eq!(letters(&folder.path().join("old.ndjson")).len() as u64 + file.left_out(), written);
    }
}
