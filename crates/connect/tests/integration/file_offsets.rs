//! Where a source of files resumes: whatever happens to the files, and wherever it is interrupted, each row comes once.
#![cfg(feature = "tables")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::Format;
use tidemill_core::error::Cause;
use tidemill_core::source::{Polled, Source, SourceOffsets, note_offsets};

/// A test that waits for longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn ids() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

fn settings(path: &Path, format: Format, follow: bool) -> FileSettings {
    FileSettings {
        follow,
        format: Some(format),
        schema: Some(ids()),
        batch_rows: 3,
        ..FileSettings::new(path.display().to_string())
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// What a journal keeps: records of rows and offsets, in order.
#[derive(Default)]
struct Journal {
    records: Vec<(Vec<i64>, Vec<tidemill_core::source::SourceOffset>)>,
}

impl Journal {
    fn offsets(&self) -> SourceOffsets {
        let mut offsets = SourceOffsets::new();
        self.records.iter().for_each(|(_, changed)| note_offsets(&mut offsets, changed.iter().cloned()));
        offsets
    }

    /// How often the journal has each id.
    fn counts(&self) -> BTreeMap<i64, usize> {
        let mut counts = BTreeMap::new();
        self.records.iter().flat_map(|(rows, _)| rows).for_each(|id| *counts.entry(*id).or_default() += 1);
        counts
    }

    fn ids(&self) -> Vec<i64> {
        self.counts().into_keys().collect()
    }

    fn open(&self, settings: &FileSettings) -> Result<FileSource, Cause> {
        let mut source = FileSource::open(settings.clone())?;
        let offsets = self.offsets();
        if !offsets.is_empty() {
            source.resume(&offsets)?;
        }
        Ok(source)
    }

    /// Polls once; false if nothing came.
    fn take(&mut self, source: &mut FileSource, wait: Duration) -> bool {
        let Polled::Rows(rows) = source.poll(wait).unwrap() else { return false };
        let rows = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
        self.records.push((rows, source.offsets()));
        true
    }

    /// Polls until all rows that are due have come, and checks that no others follow.
    fn take_all(&mut self, source: &mut FileSource, due: usize) {
        let start = Instant::now();
        while self.counts().len() < due {
            assert!(start.elapsed() < PATIENCE, "{} of {due}", self.counts().len());
            self.take(source, Duration::from_millis(20));
        }
    }
}

/// What happens to a folder.
#[derive(Clone, Debug)]
enum Step {
    /// Lines are appended to a file, which may be new; the last one without its line end.
    Append {
        file: usize,
        lines: usize,
        cuts_last: bool,
    },
    /// A file is renamed to a name that is read, or to one that is not.
    Rename {
        file: usize,
        to: usize,
    },
    Hide {
        file: usize,
    },
    /// A file that was read to its end is truncated to nothing, or removed.
    Truncate {
        file: usize,
    },
    Remove {
        file: usize,
    },
    /// This many batches are taken.
    Poll {
        batches: usize,
    },
    /// The process ends; the last records may not have reached the disk.
    Restart {
        lost: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..4_usize;
    prop_oneof![
        6 => (file.clone(), 1..12_usize, any::<bool>())
            .prop_map(|(file, lines, cuts_last)| Step::Append { file, lines, cuts_last }),
        2 => (file.clone(), 0..4_usize).prop_map(|(file, to)| Step::Rename { file, to }),
        1 => file.clone().prop_map(|file| Step::Hide { file }),
        1 => file.clone().prop_map(|file| Step::Truncate { file }),
        1 => file.prop_map(|file| Step::Remove { file }),
        5 => (1..5_usize).prop_map(|batches| Step::Poll { batches }),
        4 => prop_oneof![3 => Just(0), 1 => 0..6_usize].prop_map(|lost| Step::Restart { lost }),
    ]
}

/// A folder, and the lines that were written into it.
struct World {
    folder: tempfile::TempDir,
    format: Format,
    /// For each name the lines of its file, and whether the last one still lacks its line end.
    files: BTreeMap<usize, (Vec<i64>, bool)>,
    hidden: usize,
    next: i64,
    /// Lines that are complete, or whose file nobody writes to any more.
    due: Vec<i64>,
}

impl World {
    fn path(&self, file: usize) -> PathBuf {
        self.folder.path().join(format!("{}.{}", ["d", "b", "a", "c"][file], "log"))
    }

    fn line(&self, id: i64) -> String {
        match self.format {
            Format::Json => format!("{{\"id\": {id}}}"),
            _ => id.to_string(),
        }
    }

    fn append(&mut self, file: usize, lines: usize, cuts_last: bool) {
        let path = self.path(file);
        let (mut ids, is_cut) = self.files.remove(&file).unwrap_or_default();
        let mut text = String::new();
        if ids.is_empty() && self.format == Format::Csv {
            text += "other,id\n";
        }
        if is_cut {
            text += "\n";
            self.due.extend(ids.last());
        }
        for line in 0..lines {
            let content = self.line(self.next);
            let content = if self.format == Format::Csv { format!("x,{content}") } else { content };
            text += &content;
            ids.push(self.next);
            if line + 1 < lines || !cuts_last {
                text += "\n";
                self.due.push(self.next);
            }
            self.next += 1;
        }
        append(&path, &text);
        self.files.insert(file, (ids, cuts_last));
    }

    /// The line without its line end counts, because reading of its file is over.
    fn ends(&mut self, file: usize) {
        if let Some((ids, true)) = self.files.get(&file) {
            self.due.extend(ids.last());
        }
    }

    fn has_some(&self, journal: &Journal, file: usize) -> bool {
        let counts = journal.counts();
        self.files.get(&file).is_some_and(|(ids, _)| ids.iter().any(|id| counts.contains_key(id)))
    }

    fn has_all(&self, journal: &Journal, file: usize) -> bool {
        let counts = journal.counts();
        self.files.get(&file).is_some_and(|(ids, _)| ids.iter().all(|id| counts.contains_key(id)))
    }
}

fn run(format: Format, watch: bool, steps: &[Step]) {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path().join("*.log").as_path(), format.clone(), true);
    let settings = FileSettings { watch, ..settings };
    let mut world = World { folder, format, files: BTreeMap::new(), hidden: 0, next: 100, due: Vec::new() };
    let mut journal = Journal::default();
    let mut source = Some(journal.open(&settings).unwrap());
    for step in steps {
        match *step {
            Step::Append { file, lines, cuts_last } => world.append(file, lines, cuts_last),
            Step::Rename { file, to } if file != to && !world.files.contains_key(&to) => {
                if let Some(state) = world.files.remove(&file) {
                    fs::rename(world.path(file), world.path(to)).unwrap();
                    world.files.insert(to, state);
                }
            }
            // The source has begun to read it. A line without its end would be taken for complete or not, as it is noticed
            // before or after a restart.
            Step::Hide { file } if world.has_some(&journal, file) && !world.files[&file].1 => {
                world.hidden += 1;
                let hidden = world.folder.path().join(format!("old.{}", world.hidden));
                fs::rename(world.path(file), hidden).unwrap();
                world.files.remove(&file);
            }
            Step::Truncate { file } if world.has_all(&journal, file) && !world.files[&file].1 => {
                fs::File::create(world.path(file)).unwrap();
                world.files.insert(file, (Vec::new(), false));
            }
            Step::Remove { file } if world.has_all(&journal, file) => {
                world.ends(file);
                fs::remove_file(world.path(file)).unwrap();
                world.files.remove(&file);
            }
            Step::Poll { batches } => {
                let source = source.get_or_insert_with(|| journal.open(&settings).unwrap());
                for _ in 0..batches {
                    journal.take(source, Duration::ZERO);
                }
            }
            Step::Restart { lost } => {
                // What was done to a file that was read counts on that.
                let needs_all = |step: &Step| {
                    matches!(step, Step::Hide { .. } | Step::Truncate { .. } | Step::Remove { .. })
                };
                let is_certain = !steps.iter().any(needs_all);
                let kept = journal.records.len().saturating_sub(if is_certain { lost } else { 0 });
                journal.records.truncate(kept);
                source = None;
            }
            _ => {}
        }
    }
    let mut source = source.unwrap_or_else(|| journal.open(&settings).unwrap());
    world.due.sort_unstable();
    world.due.dedup();
    journal.take_all(&mut source, world.due.len());
    while journal.take(&mut source, Duration::from_millis(1)) {}
    assert_eq!(journal.ids(), world.due, "{:?}", source.faults());
    assert!(journal.counts().values().all(|count| *count == 1), "{:?}", journal.counts());
}

#[test]
fn a_folder_that_is_not_there_is_told_of_once_and_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clickz");
    let mut source = FileSource::open(settings(&path, Format::Json, true)).unwrap();
    for _ in 0..10 {
        assert!(matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Nothing));
    }
    let faults = source.faults();
    assert_eq!((faults.count, faults.notices.count()), (0, 1), "{faults:?}");
    assert!(faults.notices.newest()[0].contains("clickz: nothing exists there yet"), "{faults:?}");
    fs::create_dir(&path).unwrap();
    append(&path.join("a.json"), "{\"id\": 7}\n");
    let mut journal = Journal::default();
    journal.take_all(&mut source, 1);
    assert!(source.faults().is_empty());
    // An empty folder is there.
    let empty = tempfile::tempdir().unwrap();
    let mut source = FileSource::open(settings(empty.path(), Format::Json, true)).unwrap();
    assert!(matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Nothing));
    assert!(source.faults().is_empty());
}

fn check(format: Format) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 40,
        ..Config::default()
    });
    runner
        .run(&prop::collection::vec(step(), 1..40), |steps| {
            [false, true].into_iter().for_each(|watch| run(format.clone(), watch, &steps));
            Ok(())
        })
        .unwrap();
}

#[test]
fn each_line_of_followed_csv_comes_once() {
    check(Format::Csv);
}

#[test]
fn each_line_of_followed_json_comes_once() {
    check(Format::Json);
}

#[test]
fn a_file_that_is_emptied_and_grows_before_its_end_was_seen_is_read_from_its_start() {
    let append = |lines| Step::Append { file: 2, lines, cuts_last: false };
    let steps = [append(1), Step::Poll { batches: 1 }, Step::Truncate { file: 2 }, append(7)];
    for format in [Format::Csv, Format::Json] {
        [false, true].into_iter().for_each(|watch| run(format.clone(), watch, &steps));
    }
}

/// A log that is rotated by copying it and then emptying it, under a pattern that the copy's name matches.
struct CopiedLog {
    folder: tempfile::TempDir,
    next: i64,
}

impl CopiedLog {
    fn new() -> CopiedLog {
        CopiedLog { folder: tempfile::tempdir().unwrap(), next: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn settings(&self) -> FileSettings {
        settings(&self.path("app.log*"), Format::Json, true)
    }

    fn append(&mut self, lines: i64) {
        let text: String = (self.next..self.next + lines).map(|id| format!("{{\"id\": {id}}}\n")).collect();
        append(&self.path("app.log"), &text);
        self.next += lines;
    }

    fn copy(&self) {
        fs::copy(self.path("app.log"), self.path("app.log.1")).unwrap();
    }

    fn empty(&self) {
        OpenOptions::new().write(true).open(self.path("app.log")).unwrap().set_len(0).unwrap();
    }

    /// All lines came, each once, and nothing more comes.
    fn check(&self, journal: &mut Journal, source: &mut FileSource) {
        journal.take_all(source, self.next as usize);
        for _ in 0..10 {
            journal.take(source, Duration::from_millis(20));
        }
        let doubled: Vec<_> = journal.counts().into_iter().filter(|(_, count)| *count != 1).collect();
        assert_eq!(doubled, [], "each line once");
        assert_eq!(journal.ids().len() as i64, self.next);
    }
}

#[test]
fn a_copy_of_an_emptied_log_is_read_only_behind_what_was_read() {
    // How many lines were not read when it was copied, and after it was emptied.
    for (unread, after) in [(0, 0), (0, 5), (7, 0), (7, 5), (7, 2000)] {
        for restarts in [false, true] {
            let (mut log, mut journal) = (CopiedLog::new(), Journal::default());
            log.append(500);
            let mut source = journal.open(&log.settings()).unwrap();
            log.check(&mut journal, &mut source);
            log.append(unread);
            if restarts {
                drop(source);
                log.copy();
                log.empty();
                log.append(after);
                source = journal.open(&log.settings()).unwrap();
            } else {
                log.copy();
                log.empty();
                log.append(after);
            }
            log.check(&mut journal, &mut source);
            // And the offsets say so, too.
            drop(source);
            log.append(3);
            let mut source = journal.open(&log.settings()).unwrap();
            log.check(&mut journal, &mut source);
        }
    }
}

#[test]
fn a_copy_that_is_still_written_is_left_until_it_is_whole() {
    let (mut log, mut journal) = (CopiedLog::new(), Journal::default());
    log.append(500);
    let mut source = journal.open(&log.settings()).unwrap();
    log.check(&mut journal, &mut source);
    let text = fs::read(log.path("app.log")).unwrap();
    append(&log.path("app.log.1"), std::str::from_utf8(&text[..text.len() / 2]).unwrap());
    log.check(&mut journal, &mut source);
    append(&log.path("app.log.1"), std::str::from_utf8(&text[text.len() / 2..]).unwrap());
    log.empty();
    log.append(4);
    log.check(&mut journal, &mut source);
}

#[test]
fn a_file_with_the_same_rows_under_a_name_of_its_own_is_no_copy() {
    let (mut log, mut journal) = (CopiedLog::new(), Journal::default());
    log.append(500);
    let settings = settings(log.folder.path(), Format::Json, true);
    let mut source = journal.open(&settings).unwrap();
    log.check(&mut journal, &mut source);
    fs::copy(log.path("app.log"), log.path("other.log")).unwrap();
    let start = Instant::now();
    while journal.counts().values().any(|count| *count != 2) {
        assert!(start.elapsed() < PATIENCE, "its rows count, too");
        journal.take(&mut source, Duration::from_millis(20));
    }
}
