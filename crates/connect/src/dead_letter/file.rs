//! A file of refused rows.

use std::collections::HashMap;
use std::path::Path;

use tidemill_core::{Cause, FaultLog};

use super::DeadLetter;
use super::letter_file::{BYTES_MAX, LetterFile, VERSION, parsed};

/// The rows that a sink's target refuses, as JSON, one line each: version, sink, cycle, position, reason and row.
///
/// The letters of a cycle are written and forced to disk before the cycle is committed. After a crash between the two,
/// the cycle comes again with the same letters. Those that are already there are not written again.
pub struct DeadLetterFile {
    file: LetterFile,
    sink: String,
    /// Lines of an earlier run that may come again, and how often each is there.
    earlier: HashMap<String, u32>,
    /// The last cycle that has such lines.
    last_earlier: u64,
}

impl DeadLetterFile {
    /// Opens or creates the file for this sink. With `resume`, the lines that are there are the beginning of what this
    /// run writes; otherwise, of what other runs have written.
    ///
    /// # Errors
    /// [`Cause::user`] if the file cannot be opened, is in use, or holds something else.
    pub fn open(path: &Path, sink: &str, resume: bool) -> Result<DeadLetterFile, Cause> {
        let (file, lines) = LetterFile::open(path, cycle_of)?;
        let (earlier, last_earlier) = (HashMap::new(), 0);
        let mut letters = DeadLetterFile { file, sink: sink.to_owned(), earlier, last_earlier };
        if resume {
            for (cycle, line) in lines {
                letters.last_earlier = letters.last_earlier.max(cycle);
                *letters.earlier.entry(line).or_default() += 1;
            }
        }
        Ok(letters)
    }

    /// Appends the letters, in the order of their cycles, and forces them to disk.
    ///
    /// # Errors
    /// [`Cause::operation`] if the file cannot be written; it is then as before. [`Cause::resource`] if it is full.
    pub fn write(&mut self, letters: &[DeadLetter]) -> Result<(), Cause> {
        let mut text = String::new();
        for letter in letters {
            let line = line(&self.sink, letter);
            if !self.is_there(letter.cycle, &line) {
                text += &line;
                text.push('\n');
            }
        }
        if !self.file.has_room_for(text.len()) {
            return Err(Cause::resource(format!(
                "the file of dead letters '{}' has reached {} MiB; find out why so many rows are refused, move \
                 the file away, and start the query again",
                self.file.path().display(),
                BYTES_MAX >> 20
            )));
        }
        self.file.append(text.as_bytes()).map_err(|error| self.file.unwritten(&error))
    }

    /// Keeps refused rows, and reports them.
    ///
    /// # Errors
    /// As for [`DeadLetterFile::write`].
    pub fn keep(&mut self, letters: &[DeadLetter], refused: &FaultLog) -> Result<(), Cause> {
        self.write(letters)?;
        letters.iter().for_each(|letter| refused.add(|| letter.describe(&self.sink)));
        Ok(())
    }

    /// Whether an earlier run has written this line. Each of its lines counts once.
    fn is_there(&mut self, cycle: u64, line: &str) -> bool {
        if cycle > self.last_earlier {
            self.earlier = HashMap::new();
        }
        match self.earlier.get_mut(line) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

fn line(sink: &str, letter: &DeadLetter) -> String {
    let DeadLetter { cycle, position, reason, row } = letter;
    let (sink, reason) = (serde_json::Value::from(sink), serde_json::Value::from(reason.as_str()));
    format!(
        "{{\"version\":{VERSION},\"sink\":{sink},\"cycle\":{cycle},\"position\":{position},\"reason\":{reason},\
         \"row\":{row}}}"
    )
}

/// The cycle of a letter, and the letter; `None` if it is none.
fn cycle_of(line: &str) -> Option<(u64, String)> {
    let cycle = parsed(line)?.get("cycle").and_then(serde_json::Value::as_u64)?;
    Some((cycle, line.to_owned()))
}

#[cfg(test)]
mod tests {
    use tidemill_core::error::Fault;

    use super::*;

    fn letter(cycle: u64, position: u32) -> DeadLetter {
        let row = format!("{{\"n\":{position}}}");
        DeadLetter { cycle, position, reason: "too \"large\"".to_owned(), row }
    }

    fn places(path: &Path) -> Vec<(u64, u64)> {
        let text = std::fs::read_to_string(path).unwrap();
        let place = |line: &str| {
            let letter: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&letter["sink"], &letter["reason"]), (&"s".into(), &"too \"large\"".into()));
            assert_eq!(letter["row"]["n"], letter["position"]);
            (letter["cycle"].as_u64().unwrap(), letter["position"].as_u64().unwrap())
        };
        text.lines().map(place).collect()
    }

    #[test]
    fn letters_that_come_again_are_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("refused.ndjson");
        let mut letters = DeadLetterFile::open(&path, "s", true).unwrap();
        let second = DeadLetterFile::open(&path, "s", true).err().unwrap();
        assert!(second.fault == Fault::User && second.message.contains("another run is writing"), "{second}");
        // Two rows that one event has caused.
        letters.write(&[letter(3, 1), letter(3, 1), letter(4, 0)]).unwrap();
        drop(letters);
        let mut letters = DeadLetterFile::open(&path, "s", true).unwrap();
        letters.write(&[letter(3, 1), letter(3, 1), letter(3, 2)]).unwrap();
        letters.write(&[letter(4, 0), letter(5, 0)]).unwrap();
        letters.write(&[letter(6, 0)]).unwrap();
        drop(letters);
        assert_eq!(places(&path), [(3, 1), (3, 1), (4, 0), (3, 2), (5, 0), (6, 0)]);
        // A run that does not resume has its own cycles.
        let mut letters = DeadLetterFile::open(&path, "s", false).unwrap();
        letters.write(&[letter(3, 1)]).unwrap();
        assert_eq!(places(&path).len(), 7);
    }

    #[test]
    fn whatever_a_crash_leaves_behind_the_letters_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("refused.ndjson");
        DeadLetterFile::open(&path, "s", true).unwrap().write(&[letter(0, 1), letter(1, 2)]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in 0..whole.len() {
            for zeros in [0, 5] {
                let mut torn = whole[..length].to_vec();
                torn.extend(vec![0; zeros]);
                std::fs::write(&path, &torn).unwrap();
                let mut letters = DeadLetterFile::open(&path, "s", true)
                    .unwrap_or_else(|cause| panic!("{length} bytes and {zeros} zeros: {cause}"));
                assert_eq!(letters.file.bytes() as usize, if length < first { 0 } else { first });
                letters.write(&[letter(0, 1), letter(1, 2)]).unwrap();
                drop(letters);
                assert_eq!(std::fs::read(&path).unwrap(), whole, "{length} bytes and {zeros} zeros");
            }
        }
    }

    #[test]
    fn a_file_with_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clicks.csv");
        let mut letters = DeadLetterFile::open(&path, "s", true).unwrap();
        letters.write(&[letter(0, 1)]).unwrap();
        drop(letters);
        let one = std::fs::read_to_string(&path).unwrap();
        let newer = one.replace("\"version\":1", "\"version\":2");
        for text in ["id,price\n1,2\n", "x", "{\"cycle\":1}\n", &newer, &format!("{one}x\n{one}")] {
            std::fs::write(&path, text).unwrap();
            let refused = DeadLetterFile::open(&path, "s", true).err().unwrap();
            assert!(
                refused.fault == Fault::User && refused.message.contains("not a dead letter"),
                "{refused}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
