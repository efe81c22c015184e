//! Appending, syncing, losing power and starting again, against a list in memory, over thousands of seeds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::support::{request, rows};
use arrow_array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::source::{Request, SourceOffset, SourceOffsets};
use tidemill_journal::{Journal, StreamReader, StreamSettings, StreamWriter};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

/// How many runs; more with TIDEMILL_TEST_SEEDS.
const SEEDS: u64 = 1000;
const CLIENTS: [&str; 3] =
    ["", "agent-1", "a client with a long name that takes more than one line of the record's head"];

/// What was appended: the naive journal.
#[derive(Clone, Default)]
struct Model {
    records: Vec<(u64, RecordBatch, u64, Option<Request>)>,
    /// The offsets that each record has changed, with its number.
    offsets: Vec<(usize, SourceOffset)>,
    synced: u64,
}

impl Model {
    fn end(&self) -> u64 {
        self.records.last().map_or(0, |(start, rows, ..)| start + rows.num_rows() as u64)
    }

    fn last_numbers(&self) -> BTreeMap<String, u64> {
        let mut last = BTreeMap::new();
        for request in self.records.iter().filter_map(|(.., request)| request.as_ref()) {
            let number = last.entry(request.client.clone()).or_insert(request.sequence);
            *number = request.sequence.max(*number);
        }
        last
    }
}

impl Model {
    /// The last offset of each part, without those that are known no more.
    fn last_offsets(&self) -> SourceOffsets {
        let there = self.offsets.iter().filter(|(record, _)| *record < self.records.len());
        let mut last = BTreeMap::new();
        there.for_each(|(_, offset)| _ = last.insert(offset.part, offset.at.clone()));
        last.into_iter().filter_map(|(part, at)| Some((part, at?))).collect()
    }
}

fn settings() -> StreamSettings {
    StreamSettings { segment_bytes: 8192, ..StreamSettings::default() }
}

fn open(disk: &FaultDisk) -> Result<(StreamWriter, StreamReader), Cause> {
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal"))?;
    journal.stream("orders", rows(0, 1).schema(), &settings())
}

fn check(seed: u64, model: &Model, writer: &StreamWriter, reader: &mut StreamReader) {
    assert_eq!(writer.end(), model.end(), "seed {seed}");
    let mut position = 0;
    for (start, rows, arrived_ns, request) in &model.records {
        let record = reader.read(position).unwrap_or_else(|cause| panic!("seed {seed}: {cause}")).unwrap();
        assert_eq!((record.start, record.arrived_ns), (*start, *arrived_ns), "seed {seed}");
        assert_eq!((&record.rows, &record.request), (rows, request), "seed {seed}");
        position = start + rows.num_rows() as u64;
    }
    assert_eq!(reader.read(position).unwrap(), None, "seed {seed}");
    assert_eq!(*writer.offsets(), model.last_offsets(), "seed {seed}");
    for (client, last) in model.last_numbers() {
        assert!(writer.is_repeated(&request(&client, last)), "seed {seed}, client '{client}'");
        assert!(!writer.is_repeated(&request(&client, last + 1)), "seed {seed}, client '{client}'");
    }
}

fn offset(random: &mut Random) -> SourceOffset {
    let at = (!random.is_once_in(4)).then(|| vec![random.below(256) as u8; random.below(200) as usize]);
    SourceOffset { part: random.below(6), at }
}

/// One life of the journal; true if the disk failed.
fn live(seed: u64, random: &mut Random, model: &mut Model, writer: &mut StreamWriter) -> bool {
    for _ in 0..random.below(40) {
        if random.is_once_in(4) {
            match writer.sync() {
                Ok(()) => model.synced = model.end(),
                Err(_) => return true,
            }
            assert_eq!(writer.progress().synced(), model.end(), "seed {seed}");
            continue;
        }
        let large = random.is_once_in(20);
        let rows = rows(model.end(), 1 + random.below(if large { 400 } else { 20 }) as usize);
        let client = CLIENTS[random.below(3) as usize];
        let request = random.is_once_in(3).then(|| request(client, random.below(100)));
        let arrived_ns = random.next();
        let start = model.end();
        let offsets: Vec<SourceOffset> = (0..random.below(3)).map(|_| offset(random)).collect();
        match writer.append_from(&rows, arrived_ns, request.as_ref(), &offsets, &[]) {
            Ok(end) => {
                model.offsets.extend(offsets.into_iter().map(|offset| (model.records.len(), offset)));
                model.records.push((start, rows, arrived_ns, request));
                assert_eq!(end, model.end(), "seed {seed}");
            }
            Err(_) => return true,
        }
        model.synced = model.synced.max(writer.progress().synced());
    }
    false
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut disk = FaultDisk::new();
    let mut model = Model::default();
    for _ in 0..1 + random.below(5) {
        let (mut writer, mut reader) = open(&disk).unwrap_or_else(|cause| panic!("seed {seed}: {cause}"));
        // What is there is a beginning of what was appended, and has all that was synced.
        model.records.retain(|(start, ..)| *start < writer.end());
        model.offsets.retain(|(record, _)| *record < model.records.len());
        assert!(writer.end() >= model.synced, "seed {seed}: synced {}, there {}", model.synced, writer.end());
        check(seed, &model, &writer, &mut reader);
        model.synced = model.end();
        if random.is_once_in(3) {
            disk.fail_sync(random.below(8));
        }
        if live(seed, &mut random, &mut model, &mut writer) {
            assert!(
                writer.append(&rows(0, 1), 0, None).is_err(),
                "seed {seed}: it went on after a failed sync"
            );
            assert!(writer.sync().is_err(), "seed {seed}");
        } else {
            check(seed, &model, &writer, &mut reader);
        }
        drop((writer, reader));
        if !random.is_once_in(4) {
            disk = disk.power_loss(&mut random);
        }
        disk.fail_sync(u64::MAX);
    }
}

#[test]
fn what_was_synced_is_there_and_nothing_else_but_a_beginning_of_what_was_appended() {
    let seeds = std::env::var("TIDEMILL_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    (0..seeds.unwrap_or(SEEDS)).for_each(run);
}
