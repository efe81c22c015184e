//! What views keep on the disk: over random histories, with kills, losses of power and full disks between any two changes of the
//! disk, a view has after each restart the rows that a plain list says, and nothing is left that it does not need.

mod rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_engine::{Cause, Fault, Journal, Medium, Sink};
use tidemill_store::{Contents, FragmentBy, Fragmentation, Retention, StoreConfig, StoreReader, StoreSink};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

use super::DurableView;
use rows::{Row, commit, config, newest_rows, random_rows, rows_of, shown};

const FOLDER: &str = "/query";

struct View {
    view: DurableView,
    reader: StoreReader,
}

impl View {
    fn open(disk: &FaultDisk, name: &str, config: &StoreConfig) -> Result<View, Cause> {
        let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER))?;
        let (view, reader) = DurableView::open(config.clone(), name, &journal)?;
        Ok(View { view, reader })
    }
}

/// The files of chunks that a disk has.
fn chunk_files(disk: &FaultDisk) -> BTreeSet<PathBuf> {
    let is_chunk = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "chunk");
    disk.paths().into_iter().filter(is_chunk).collect()
}

/// A disk with the same files, which has nothing in common with this one.
fn copied(disk: &FaultDisk) -> FaultDisk {
    disk.sync_folder(Path::new(FOLDER)).unwrap();
    disk.power_loss(&mut Random::new(0))
}

/// Checks that a restart would remove nothing: all files are named.
fn check_nothing_is_left(disk: &FaultDisk, name: &str, config: &StoreConfig) {
    let restarted = disk.killed();
    let before = chunk_files(&restarted);
    View::open(&restarted, name, config).unwrap();
    assert_eq!(chunk_files(&restarted), before, "nothing is kept that no view needs");
}

fn fragmentation(random: &mut Random) -> Option<Fragmentation> {
    let count = [1, 3, 4][random.below(3) as usize];
    (!random.is_once_in(3)).then_some(Fragmentation { count, by: FragmentBy::Key })
}

/// Runs a view through random cycles, snapshots and ends of the process. It may be divided otherwise after each.
fn check_history(seed: u64, contents: Contents) {
    let mut random = Random::new(seed);
    // A chunk of a stream is complete when it covers 100 units of time, and no row is old enough to be dropped; one of a
    // table at 2 KiB.
    let (time, bytes_max) = match contents {
        Contents::AllRows => (Some(1600), 1 << 30),
        Contents::LastOfKey | Contents::Changes => (None, 1 << 16),
    };
    let retention = Retention { time, bytes_max, versions_max: 5, ..Retention::default() };
    let layout = |random: &mut Random| config(contents, retention.clone(), fragmentation(random));
    let mut history: Vec<Vec<Row>> = Vec::new();
    let mut disk = FaultDisk::new();
    let mut current = layout(&mut random);
    let mut kept = None;
    for _ in 0..12 {
        let mut view = View::open(&disk, "cars", &current).unwrap();
        let recorded = view.view.last_committed().unwrap();
        assert!(recorded >= kept, "seed {seed}: cycle {kept:?} was kept, but {recorded:?} is there");
        let mut next = recorded.map_or(0, |cycle| cycle + 1);
        assert_eq!(
            rows_of(&view.reader),
            shown(&history[..next as usize], contents),
            "seed {seed}: {recorded:?}"
        );
        if random.is_once_in(2) {
            disk.halt(random.below(40));
        }
        for _ in 0..random.below(30) {
            if next as usize == history.len() {
                history.push(random_rows(&mut random, next as i64 * 4));
            }
            commit(&mut view.view, next, &history[next as usize]).unwrap();
            if random.is_once_in(5) {
                let expected = shown(&history[..=next as usize], contents);
                assert_eq!(rows_of(&view.reader), expected, "seed {seed}: cycle {next}");
            }
            next += 1;
            if random.is_once_in(3) {
                let is_full = random.is_once_in(4);
                if is_full {
                    disk.limit(disk.bytes() + random.below(4000) as usize);
                }
                let kept_now = view.view.record();
                disk.limit(usize::MAX);
                match kept_now {
                    Ok(()) => kept = view.view.recorded,
                    Err(cause) => {
                        assert!(disk.is_halted(), "seed {seed}: {cause}");
                        break;
                    }
                }
                if !is_full && !disk.is_halted() {
                    assert_eq!(kept, Some(next - 1), "seed {seed}: there is room");
                    check_nothing_is_left(&disk, "cars", &current);
                }
            }
        }
        drop(view);
        disk = if random.is_once_in(2) { disk.killed() } else { disk.power_loss(&mut random) };
        if random.is_once_in(3) {
            current = layout(&mut random);
        }
    }
    assert!(history.len() > 20, "seed {seed}");
}

#[test]
fn a_view_that_ends_at_any_moment_has_what_it_had() {
    for seed in 0..60 {
        check_history(seed, Contents::AllRows);
    }
}

#[test]
fn a_table_that_ends_at_any_moment_has_what_it_had() {
    for seed in 0..60 {
        check_history(seed, Contents::LastOfKey);
    }
}

/// A view that drops old rows and is restarted often continues like one that never ends.
fn check_retention(seed: u64, contents: Contents, fragments: Option<Fragmentation>) {
    let mut random = Random::new(seed);
    let time = (contents == Contents::AllRows).then_some(90);
    let retention = Retention { time, bytes_max: 1 << 16, versions_max: 7, ..Retention::default() };
    let config = config(contents, retention, fragments);
    let (mut endless, expected) = StoreSink::new(config.clone()).unwrap();
    let disk = FaultDisk::new();
    let mut view = View::open(&disk, "cars", &config).unwrap();
    for cycle in 0..150 {
        let rows = random_rows(&mut random, cycle as i64 * 10);
        commit(&mut endless, cycle, &rows).unwrap();
        commit(&mut view.view, cycle, &rows).unwrap();
        if random.is_once_in(4) {
            view.view.record().unwrap();
            check_nothing_is_left(&disk, "cars", &config);
            drop(view);
            view = View::open(&disk, "cars", &config).unwrap();
        }
        let held = |reader: &StoreReader| {
            let held = reader.statistics();
            (held.rows, held.chunks, held.versions, held.rows_dropped, held.chunks_dropped)
        };
        assert_eq!(held(&view.reader), held(&expected), "seed {seed}: cycle {cycle}");
        assert_eq!(view.reader.cycles(), expected.cycles(), "seed {seed}: cycle {cycle}");
        let (oldest, newest) = expected.cycles().unwrap_or((1, 0));
        for asked in oldest..=newest {
            let rows = |reader: &StoreReader| reader.as_of_cycle(asked).unwrap().read().unwrap();
            assert_eq!(rows(&view.reader), rows(&expected), "seed {seed}: cycle {asked} at {cycle}");
        }
    }
    assert!(contents == Contents::LastOfKey || expected.statistics().rows_dropped > 300, "seed {seed}");
}

#[test]
fn a_view_that_is_restarted_drops_rows_like_one_that_never_ends() {
    for seed in 0..4 {
        let fragments = || Some(Fragmentation { count: 3, by: FragmentBy::Key });
        check_retention(seed, Contents::AllRows, None);
        check_retention(seed, Contents::AllRows, fragments());
        check_retention(seed, Contents::LastOfKey, None);
        check_retention(seed, Contents::LastOfKey, fragments());
    }
}

/// A view with some complete chunks, and the disk that has them.
fn kept_view(name: &str, disk: &FaultDisk) -> StoreConfig {
    let retention = Retention { time: Some(1600), ..Retention::default() };
    let config = config(Contents::AllRows, retention, None);
    let mut view = View::open(disk, name, &config).unwrap();
    for cycle in 0..50 {
        commit(&mut view.view, cycle, &random_rows(&mut Random::new(cycle), cycle as i64 * 10)).unwrap();
        if cycle % 20 == 19 {
            view.view.record().unwrap();
        }
    }
    config
}

#[test]
fn chunks_that_are_damaged_or_missing_are_named() {
    let disk = FaultDisk::new();
    let config = kept_view("cars", &disk);
    let files = chunk_files(&disk);
    assert!(files.len() > 1, "{files:?}");
    for path in files {
        let damage = |change: &dyn Fn(&mut Vec<u8>)| {
            let disk = copied(&disk);
            disk.corrupt(&path, change);
            let refused = View::open(&disk, "cars", &config).map(|_| ()).unwrap_err();
            assert!(refused.message.contains(&path.display().to_string()), "{refused}");
            assert!(chunk_files(&disk).contains(&path), "what is damaged stays for whoever looks at it");
            refused
        };
        for bytes in [0, 11, 12, 20, 30] {
            damage(&|content: &mut Vec<u8>| content.truncate(bytes));
        }
        let length = std::cell::Cell::new(0);
        damage(&|content: &mut Vec<u8>| {
            length.set(content.len());
            content.pop();
        });
        for at in (0..length.get()).step_by(97) {
            damage(&|content: &mut Vec<u8>| content[at] ^= 0x40);
        }
        let newer = damage(&|content: &mut Vec<u8>| content[8] = 2);
        assert!(newer.fault == Fault::User && newer.message.contains("format has version 2"), "{newer}");
        let disk = copied(&disk);
        disk.remove(&path).unwrap();
        let missing = View::open(&disk, "cars", &config).map(|_| ()).unwrap_err().to_string();
        assert!(missing.contains(&path.display().to_string()) && missing.contains("is missing"), "{missing}");
    }
}

#[test]
fn views_of_one_query_do_not_touch_each_other_and_what_is_dropped_is_removed() {
    let disk = FaultDisk::new();
    let config = kept_view("cars", &disk);
    kept_view("car", &disk);
    let open = |name: &str| View::open(&disk, name, &config).unwrap();
    let (cars, car) = (rows_of(&open("cars").reader), rows_of(&open("car").reader));
    assert!(!cars.is_empty() && cars == car);
    let journal = || Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    journal().remove_rows_of_others(&["cars".to_owned()]).unwrap();
    assert!(chunk_files(&disk).iter().all(|path| path.starts_with("/query/views/cars.chunks")));
    assert_eq!(rows_of(&open("cars").reader), cars);
    assert_eq!(open("car").view.last_committed(), Ok(None));
    journal().clear().unwrap();
    assert!(chunk_files(&disk).is_empty());
    assert_eq!(open("cars").view.last_committed(), Ok(None));
}

#[test]
fn a_snapshot_writes_only_what_is_new() {
    let disk = FaultDisk::new();
    let config = config(
        Contents::AllRows,
        Retention::default(),
        Some(Fragmentation { count: 2, by: FragmentBy::Key }),
    );
    let mut view = View::open(&disk, "cars", &config).unwrap();
    let mut next = 0;
    let mut store = |view: &mut View, cycles: u64| {
        for _ in 0..cycles {
            commit(&mut view.view, next, &newest_rows(next as i64, 10_000)).unwrap();
            next += 1;
        }
        view.view.record().unwrap();
    };
    store(&mut view, 100);
    let files = chunk_files(&disk);
    let all = disk.bytes();
    store(&mut view, 1);
    let manifest = Path::new("/query/views/cars.rows");
    let mut manifest_bytes = 0;
    disk.killed().corrupt(manifest, |bytes| manifest_bytes = bytes.len());
    let new: BTreeSet<PathBuf> = chunk_files(&disk).difference(&files).cloned().collect();
    let mut new_bytes = 0;
    new.iter().for_each(|path| disk.killed().corrupt(path, |bytes| new_bytes += bytes.len()));
    let stored = view.reader.statistics().bytes;
    println!(
        "{stored} bytes in memory: {all} bytes kept; the next snapshot: {new_bytes} + {manifest_bytes} bytes"
    );
    // At most two open chunks, and those that have become complete since.
    let chunk = (1 << 14) * (all / 1_000_000);
    assert!(manifest_bytes < 3 * chunk && new_bytes < 3 * chunk, "{manifest_bytes} + {new_bytes} of {all}");
    assert!(all > 10 * (manifest_bytes + new_bytes));
}
