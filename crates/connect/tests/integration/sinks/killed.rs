//! A process that writes cycles is killed again and again. In the end it leaves what an uninterrupted process would
//! have left. The process is this test binary, started for [`in_child`].

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use tidemill_connect::file::{
    DirectorySink, DirectorySinkSettings, FileFormat, FileSink, FileSinkSettings, SyncPolicy,
};
use tidemill_core::{Cause, Fault, Guarantee, Sink};

use crate::sinks::children::killed_until_done;
use crate::sinks::support::{commit_one, cycle, rows, rows_of_cycle, schema, text_of};

const KIND: &str = "TIDEMILL_KILLED_KIND";
const PLACE: &str = "TIDEMILL_KILLED_PLACE";
const CYCLES: u64 = 300;

fn file_settings(format: FileFormat) -> FileSinkSettings {
    FileSinkSettings { resume: true, sync: SyncPolicy::EveryCommit, ..FileSinkSettings::new(format) }
}

fn directory_settings(format: FileFormat) -> DirectorySinkSettings {
    DirectorySinkSettings { resume: true, rows_max: 100, ..DirectorySinkSettings::new(format) }
}

fn open(kind: &str, place: &Path) -> Box<dyn Sink> {
    let (kind, ending) = kind.split_once('.').unwrap();
    let format = FileFormat::of_name(&format!("rows.{ending}")).unwrap();
    match kind {
        "file" => Box::new(FileSink::create(place, &schema(), &file_settings(format)).unwrap()),
        _ => Box::new(DirectorySink::create(place, &schema(), &directory_settings(format)).unwrap()),
    }
}

/// Some cycles have no rows, some have many.
fn rows_of(number: u64) -> Option<RecordBatch> {
    let count = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize;
    (count > 3).then(|| rows_of_cycle(number, count))
}

/// The child's work: it continues behind the last committed cycle, with up to 4 cycles per commit.
#[test]
fn in_child() {
    let (Ok(kind), Ok(place)) = (env::var(KIND), env::var(PLACE)) else { return };
    let mut sink = open(&kind, &PathBuf::from(place));
    assert_eq!(sink.guarantee(), Guarantee::ExactlyOnce);
    let mut first = sink.last_committed().unwrap().map_or(0, |last| last + 1);
    while first < CYCLES {
        let last = (first + first % 4).min(CYCLES - 1);
        for number in first..=last {
            sink.prepare(cycle(number, rows_of(number))).unwrap();
        }
        sink.commit(first..=last).unwrap();
        first = last + 1;
    }
    sink.finish().unwrap();
    println!("all written");
}

/// Lets children write such a sink, kills all but the last; returns how many were killed.
fn write_and_kill(kind: &str, place: &Path) -> u64 {
    killed_until_done(|child| {
        child.args(["--exact", "sinks::killed::in_child"]).env(KIND, kind).env(PLACE, place)
    })
}

fn expected() -> Vec<RecordBatch> {
    (0..CYCLES).filter_map(rows_of).collect()
}

#[test]
fn a_file_of_text_is_the_same() {
    for ending in ["csv", "ndjson"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let killed = write_and_kill(&format!("file.{ending}"), &path);
        let format = FileFormat::of_name(&format!("out.{ending}")).unwrap();
        let expected = text_of(&format.text().unwrap(), &expected());
        assert!(fs::read_to_string(&path).unwrap() == expected, "other rows after {killed} kills");
        eprintln!("{ending}: killed {killed} times");
    }
}

fn complete_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.')).collect();
    paths.sort();
    paths
}

#[test]
fn a_folder_of_text_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("out");
    let killed = write_and_kill("folder.csv", &place);
    let mut text = "key,value\n".to_owned();
    for path in complete_files(&place) {
        text += fs::read_to_string(path).unwrap().strip_prefix("key,value\n").unwrap();
    }
    assert!(
        text == text_of(&FileFormat::csv().text().unwrap(), &expected()),
        "other rows after {killed} kills"
    );
    // The manifest, and nothing else that is hidden.
    assert_eq!(fs::read_dir(&place).unwrap().count(), complete_files(&place).len() + 1);
    eprintln!("killed {killed} times");
}

#[test]
fn a_folder_of_columns_is_the_same() {
    for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("out");
        let killed = write_and_kill(&format!("folder.{}", format.ending()), &place);
        let batches: Vec<RecordBatch> =
            complete_files(&place).iter().map(|path| crate::sinks::files::read(path, &format)).collect();
        let together = concat_batches(&schema(), &batches).unwrap();
        assert!(
            together == concat_batches(&schema(), &expected()).unwrap(),
            "other rows after {killed} kills"
        );
        assert_eq!(fs::read_dir(&place).unwrap().count(), complete_files(&place).len() + 1);
        eprintln!("{}: killed {killed} times", format.ending());
    }
}

#[test]
fn what_is_not_committed_is_cut_off_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("out");
    let mut sink = DirectorySink::create(&place, &schema(), &directory_settings(FileFormat::csv())).unwrap();
    commit_one(&mut sink, 4, rows(&[("a", 1)])).unwrap();
    drop(sink);
    let open_path = place.join(".part-00000000000000000004.csv");
    fs::write(&open_path, fs::read_to_string(&open_path).unwrap() + "half a li").unwrap();
    fs::write(place.join(".part-00000000000000000007.csv"), "torn").unwrap();
    fs::write(place.join("part-00000000000000000007-00000000000000000008.csv"), "not counted").unwrap();
    fs::write(place.join("part-of-me.csv"), "mine").unwrap();
    let mut sink = DirectorySink::create(&place, &schema(), &directory_settings(FileFormat::csv())).unwrap();
    assert_eq!(sink.last_committed(), Ok(Some(4)));
    commit_one(&mut sink, 5, rows(&[("b", 2)])).unwrap();
    sink.finish().unwrap();
    let [mine, part] = &complete_files(&place)[..] else { panic!("{:?}", complete_files(&place)) };
    assert!(
        part.ends_with("part-of-me.csv")
            && mine.ends_with("part-00000000000000000004-00000000000000000005.csv")
    );
    assert_eq!(fs::read_to_string(mine).unwrap(), "key,value\na,1\nb,2\n");
}

#[test]
fn what_cannot_be_gone_on_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    fs::write(&path, "someone else's").unwrap();
    let settings = file_settings(FileFormat::csv());
    let refused = FileSink::create(&path, &schema(), &settings).err();
    assert!(
        matches!(refused, Some(Cause { fault: Fault::User, message, .. }) if message.contains("already exists"))
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
    fs::remove_file(&path).unwrap();

    let mut sink = FileSink::create(&path, &schema(), &settings).unwrap();
    let second = FileSink::create(&path, &schema(), &settings).err();
    assert!(
        matches!(second, Some(Cause { fault: Fault::User, message, .. }) if message.contains("another run"))
    );
    commit_one(&mut sink, 1, rows(&[("a", 1)])).unwrap();
    drop(sink);
    fs::write(&path, "key").unwrap();
    let short = FileSink::create(&path, &schema(), &settings).err();
    assert!(
        matches!(short, Some(Cause { fault: Fault::Operation, message, .. }) if message.contains("14 bytes")),
        "a file that is cut"
    );
    let parquet = FileSink::create(&path, &schema(), &file_settings(FileFormat::Parquet)).err();
    assert!(
        matches!(parquet, Some(Cause { fault: Fault::User, message, .. }) if message.contains("connector directory"))
    );
    let device = FileSink::create(Path::new("/dev/null"), &schema(), &settings).err();
    assert!(matches!(device, Some(Cause { fault: Fault::User, message, .. }) if message.contains("device")));
    let fresh = FileSink::create(&path, &schema(), &FileSinkSettings::new(FileFormat::csv())).err();
    assert!(matches!(fresh, Some(Cause { fault: Fault::User, .. })));
}
