//! The machine halts, or loses power, at each change of the disk while a query's sinks change. Whichever script is started then,
//! nothing is continued with a state that is not its own.

use std::path::Path;

use tidemill_core::error::Cause;
use tidemill_core::{Cut, CutLog, CycleOutput, Guarantee, Sink};
use tidemill_journal::{Journal, StoredSnapshot, StreamSettings};

use super::*;
use crate::durable::description::Description;
use crate::durable::recovery::{Recoverer, Recovery};
use crate::durable::{Durability, SinkCommit};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

const FOLDER: &str = "/journal";

/// The last cycle that a sink has, if it remembers it.
struct At(Option<u64>);

impl Sink for At {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.0)
    }
    fn prepare(&mut self, _output: CycleOutput) -> Result<(), Cause> {
        Ok(())
    }
    fn commit(&mut self, _cycles: std::ops::RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// A script: its sinks, each with what it computes and the last cycle that it has.
type Script = [(&'static str, &'static [&'static str], Option<u64>)];

const OLD: &Script = &[("gone", &["join"], Some(6)), ("stays", &["window"], Some(5))];
const NEW: &Script = &[("stays", &["window"], Some(5)), ("new", &["count"], None)];

fn described(script: &Script) -> Description {
    let sinks: Vec<(&str, &[&str])> = script.iter().map(|(name, chain, _)| (*name, *chain)).collect();
    let (plan, queries) = plan_of(&sinks);
    let text: String = script.iter().map(|(name, chain, _)| format!("{name}: {chain:?}\n")).collect();
    Description::of(&plan, &[None], &Durability { sinks: queries, ..Durability::new(text) })
}

fn cut(cycle: u64) -> Cut {
    Cut { cycle, positions: vec![0], watermarks: vec![0], ..Cut::first() }
}

fn open(disk: &FaultDisk) -> Result<Journal, Cause> {
    let journal = Journal::open_on(std::sync::Arc::new(disk.clone()), Path::new(FOLDER))?;
    journal.cuts_in_segments(4096)?;
    Ok(journal)
}

/// A folder in which the old script has run: cycles 0 to 6, with states after 2, 4 and 6.
fn begun() -> FaultDisk {
    let disk = FaultDisk::new();
    let journal = open(&disk).unwrap();
    let mut cuts = journal.cuts().unwrap();
    (0..=6).for_each(|cycle| cuts.append(&cut(cycle)).unwrap());
    cuts.sync().unwrap();
    for cycle in [2, 4, 6] {
        let state = Snapshot { cycle, ..state(&["1 join", "2 window"]) };
        let plan = described(OLD).text().to_owned();
        journal.snapshots().write(&StoredSnapshot { cut: cut(cycle), plan, state }).unwrap();
    }
    journal.set_query(described(OLD).text()).unwrap();
    disk
}

fn start(disk: &FaultDisk, script: &Script) -> Result<Recovery, Cause> {
    let journal = open(disk)?;
    let cuts = journal.cuts()?;
    let names: Vec<String> = script.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let mut sinks: Vec<Box<dyn Sink>> =
        script.iter().map(|(_, _, at)| Box::new(At(*at)) as Box<dyn Sink>).collect();
    let settings = StreamSettings { segment_bytes: 4096, ..StreamSettings::default() };
    let (writer, _) = journal.stream("clicks", schema(), &settings)?;
    let streams = [writer.progress()];
    let recoverer = Recoverer {
        journal: &journal,
        cuts: &cuts,
        description: &described(script),
        names: &names,
        stream_names: &["clicks".to_owned()],
        streams: &streams,
    };
    recoverer.recover(&mut sinks)
}

/// The operators that have a state, with whose it was.
fn states(found: &Recovery) -> Vec<(String, String)> {
    let state = found.state.iter().flat_map(|state| &state.operators);
    state.map(|(name, of)| (name.clone(), String::from_utf8(of[&0].clone()).unwrap())).collect()
}

fn committed(found: &Recovery) -> Vec<Option<u64>> {
    found.sinks.iter().map(|SinkCommit { committed, .. }| *committed).collect()
}

fn pair(now: &str, before: &str) -> (String, String) {
    (now.to_owned(), before.to_owned())
}

#[track_caller]
fn assert_is_new(found: &Recovery) {
    assert_eq!(
        found.resume.after.as_ref().map(|cut| cut.cycle),
        Some(4),
        "what the unchanged sink lacks comes again"
    );
    assert_eq!(states(found), [pair("1 window", "2 window")], "a new operator begins without state");
    assert_eq!(committed(found), [Some(5), Some(4)]);
    assert_eq!(found.resume.sinks, [6, 5], "the new sink gets all that its operators see");
}

#[test]
fn a_change_is_done_whole_at_the_next_start_of_the_new_script() {
    let disk = begun();
    let found = start(&disk, NEW).unwrap();
    assert_is_new(&found);
    let changed = found.recovered.changed.as_ref().expect("it is told");
    assert_eq!(changed.removed, ["gone"]);
    assert_eq!(changed.dropped, ["1 join"]);
    let again = start(&disk, NEW).unwrap();
    assert_is_new(&again);
    assert_eq!(again.recovered.changed, None, "it is told once");
    assert_eq!(open(&disk).unwrap().snapshots().cycles().unwrap(), [4]);
}

#[test]
fn halts_and_losses_of_power_leave_one_query_or_the_other() {
    let (mut of_old, mut refused_old, mut halts) = (0, 0, 0);
    for after in 0.. {
        let disk = begun();
        disk.halt(after);
        let ended = start(&disk, NEW).is_ok();
        let left = [
            disk.killed(),
            disk.power_loss(&mut Random::new(after)),
            disk.power_loss(&mut Random::new(after + 1000)),
        ];
        for left in left {
            let found = start(&left.killed(), NEW).unwrap_or_else(|cause| panic!("halt {after}: {cause}"));
            assert_is_new(&found);
            match start(&left.killed(), OLD) {
                // As if nothing had been.
                Ok(found) => {
                    of_old += 1;
                    assert_eq!(states(&found), [pair("1 join", "1 join"), pair("2 window", "2 window")]);
                    assert_eq!(committed(&found), [Some(6), Some(5)]);
                }
                Err(cause) => {
                    refused_old += 1;
                    let told = cause.to_string();
                    assert!(
                        told.contains("sink 'gone' has the rows of another query"),
                        "halt {after}: {told}"
                    );
                }
            }
        }
        halts += 1;
        if ended {
            break;
        }
    }
    assert!(halts > 8 && of_old > 0 && refused_old > 0, "{halts} halts, {of_old} and {refused_old}");
}

#[test]
fn no_run_begins_before_a_sink_that_was_added() {
    let disk = begun();
    start(&disk, NEW).unwrap();
    // What the unchanged sink had is lost, so it wants all from the beginning; the cuts and rows would be there.
    let lost: &Script = &[("stays", &["window"], None), ("new", &["count"], Some(6))];
    let refused = start(&disk, lost).err().expect("the new sink's operators would see too much").to_string();
    assert!(refused.contains("a sink lacks cycles up to 4, with which a sink was added"), "{refused}");
    // Without the new sink, it can.
    let alone: &Script = &[("stays", &["window"], None)];
    let found = start(&disk, alone).unwrap();
    assert_eq!((found.resume.after.is_none(), found.resume.replay.len()), (true, 7));
}
