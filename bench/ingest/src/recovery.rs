//! Recovery: from the start after a crash until a new message is committed, with a snapshot of a number of keys and a
//! length of journal behind it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use arrow_array::RecordBatch;
use tidemill_engine::{
    Durability, DurableRun, DurableSource, Engine, FeedSettings, Journal, Recovered, StreamSettings,
    SyncPolicy,
};

use crate::memory::{Batches, Table};
use crate::{points, statistics};

fn start(
    folder: &Path,
    table: &Table,
    batches: Vec<RecordBatch>,
    snapshot_every: Duration,
) -> Result<DurableRun> {
    let source = DurableSource {
        source: Box::new(Batches::new(batches, true)),
        feed: FeedSettings::default(),
        stream: StreamSettings::default(),
        sync: SyncPolicy::AtOnce,
    };
    let durability = Durability { snapshot_every, ..Durability::new("statistics") };
    let sinks: Vec<Box<dyn tidemill_engine::Sink>> = vec![Box::new(table.clone())];
    let journal = Journal::open(folder)?;
    Ok(Engine::new().run_durable(statistics::plan()?, sinks, vec![source], journal, &durability)?)
}

fn wait_for(table: &Table, messages: u64) -> Result<()> {
    let start = Instant::now();
    while table.messages() < messages {
        ensure!(start.elapsed() < Duration::from_secs(300), "{} of {messages}", table.messages());
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

fn break_off(run: DurableRun) {
    run.running.abort();
    let _ = run.running.join();
    drop((run.feeds, run.maintenance));
}

pub fn measure(folder: &Path, journal_bytes: u64, sensors: u64) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let (folder, table) = (folder.path().join("journal"), Table::default());
    let sensors = sensors / 8192 * 8192;
    let run = start(&folder, &table, points::batches(0, sensors, sensors)?, Duration::from_millis(500))?;
    wait_for(&table, sensors)?;
    wait_for_snapshot(&folder)?;
    break_off(run);

    let mut messages = sensors;
    // The size of a message in the journal.
    let per_message = 266;
    let run = start(
        &folder,
        &table,
        points::batches(messages, journal_bytes / per_message, sensors)?,
        Duration::from_secs(86_400),
    )?;
    messages += journal_bytes / per_message;
    wait_for(&table, messages)?;
    break_off(run);
    for (kind, is_cold) in [("warm", false), ("cold", true)] {
        if is_cold && !drop_caches() {
            println!("| recovery, cold | | | skipped: the caches cannot be dropped here |");
            continue;
        }
        table.kept().rows.clear();
        let one = points::batches(messages, 1, sensors)?;
        let begin = Instant::now();
        let run = start(&folder, &table, one, Duration::from_secs(86_400))?;
        let opened = begin.elapsed();
        messages += 1;
        wait_for(&table, messages)?;
        tell(kind, begin.elapsed(), opened, &run.recovered, journal_bytes);
        // It has been counted since the beginning.
        let rows = table.kept().rows.clone();
        break_off(run);
        check_last(&rows, messages, sensors)?;
    }
    Ok(())
}

fn tell(kind: &str, time: Duration, opened: Duration, recovered: &Recovered, journal_bytes: u64) {
    println!(
        "| recovery, {kind} | {:.2} | {:.2} | {time:.2?}, of it {opened:.2?} until it runs; {} cycles, {} messages \
         behind the snapshot |",
        recovered.events as f64 / time.as_secs_f64() / 1e6,
        journal_bytes as f64 / time.as_secs_f64() / 1e9,
        recovered.cycles,
        recovered.events,
    );
}

/// The row of the last message's sensor.
fn check_last(rows: &[RecordBatch], messages: u64, sensors: u64) -> Result<()> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let sensor = points::sensor(messages - 1, sensors);
    let count = (0..messages).filter(|message| points::sensor(*message, sensors) == sensor).count() as i64;
    let last = rows.last().map(|rows| rows.column(1).as_primitive::<Int64Type>().value(rows.num_rows() - 1));
    ensure!(last == Some(count), "sensor {sensor} has {last:?} messages where {count} are due");
    Ok(())
}

fn wait_for_snapshot(folder: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        let listing = tidemill_engine::inspect::list(folder)?;
        if listing.snapshots.last().is_some_and(|cycle| *cycle + 1 == listing.cuts.end) {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "no snapshot was taken");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether the system's caches of files could be dropped.
fn drop_caches() -> bool {
    let _ = std::process::Command::new("sync").status();
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}
