//! Durable ingestion: the stages of Chimera's table with messages of the same size, end to end over a socket, and
//! recovery. Answers are checked before anything is printed.

mod end_to_end;
mod engine;
mod journal;
mod memory;
mod parsing;
mod points;
mod recovery;
mod report;
mod ring;
mod send;
mod staging;
mod statistics;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tidemill_engine::SyncPolicy;

use end_to_end::Load;

#[global_allocator]
static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;

/// Durable ingestion, stage by stage, end to end, and recovery.
#[derive(Parser)]
struct Arguments {
    /// What to measure.
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Parsing, ring, journal, engine, staging, flush.
    Stages {
        /// A folder on the disk.
        #[arg(long, default_value = ".")]
        disk: PathBuf,
        /// A folder in memory.
        #[arg(long, default_value = "/dev/shm")]
        memory: PathBuf,
        /// Messages of each stage.
        #[arg(long, default_value_t = 1_000_000)]
        messages: u64,
        /// Only the stages whose names begin so.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Over a TCP socket, durable.
    EndToEnd {
        /// A folder for the journal.
        #[arg(long, default_value = ".")]
        folder: PathBuf,
        /// Messages of each run.
        #[arg(long, default_value_t = 4_000_000)]
        messages: u64,
        /// Different sensors.
        #[arg(long, default_value_t = 100_000)]
        sensors: u64,
        /// Messages per second, one run for each; 0: as fast as they are taken.
        #[arg(long, value_delimiter = ',', default_value = "0,100000,300000")]
        rate: Vec<u64>,
        /// Milliseconds between syncs; 0: at once.
        #[arg(long, default_value_t = 0)]
        sync_ms: u64,
    },
    /// From a crash to caught up, warm and cold.
    Recovery {
        /// A folder for the journal.
        #[arg(long, default_value = ".")]
        folder: PathBuf,
        /// Megabytes of journal behind the snapshot.
        #[arg(long, default_value_t = 1000)]
        megabytes: u64,
        /// Different sensors.
        #[arg(long, default_value_t = 1_000_000)]
        sensors: u64,
    },
    /// The sending process of the end-to-end runs.
    #[command(hide = true)]
    Send { address: String, messages: u64, sensors: u64, rate: u64 },
}

fn main() -> anyhow::Result<()> {
    tidemill_allocator::tune();
    let part = Arguments::parse().part;
    if let Part::Send { address, messages, sensors, rate } = part {
        return send::run(&address, messages, sensors, rate);
    }
    println!("| stage | M messages/s | GB/s | |\n|---|---|---|---|");
    match part {
        Part::Stages { disk, memory, messages, only } => stages(&disk, &memory, messages, &only),
        Part::EndToEnd { folder, messages, sensors, rate, sync_ms } => {
            let sync = if sync_ms == 0 {
                SyncPolicy::AtOnce
            } else {
                SyncPolicy::Every(Duration::from_millis(sync_ms))
            };
            for rate in rate {
                let rate = (rate > 0).then_some(rate);
                let kind = rate.map_or("as fast as taken".into(), |rate| format!("{rate}/s"));
                let messages = rate.map_or(messages, |rate| messages.min(rate * 10));
                end_to_end::measure(&folder, &Load { messages, sensors, rate, sync }, &kind)?;
            }
            Ok(())
        }
        Part::Recovery { folder, megabytes, sensors } => {
            recovery::measure(&folder, megabytes * 1_000_000, sensors)
        }
        Part::Send { .. } => Ok(()),
    }
}

fn stages(disk: &std::path::Path, memory: &std::path::Path, messages: u64, only: &str) -> anyhow::Result<()> {
    let is_wanted = |stage: &str| stage.starts_with(only);
    if is_wanted("parsing") {
        parsing::measure(messages.min(200_000))?;
    }
    if is_wanted("ring") {
        ring::measure()?;
    }
    if is_wanted("journal") {
        journal::measure(memory, messages, "tmpfs")?;
        journal::measure(disk, messages, "disk")?;
    }
    if is_wanted("engine") {
        engine::measure(messages, 100_000)?;
    }
    if is_wanted("staging") {
        staging::measure(100_000)?;
        staging::measure(5_000_000)?;
    }
    Ok(())
}
