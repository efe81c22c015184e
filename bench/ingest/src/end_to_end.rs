//! End to end: a separate process sends messages over TCP; they are parsed, journaled, synced, processed, committed.
//!
//! The time of a message runs from the moment it was due at the sender to the commit of its cycle, so any delay of the
//! sender counts in full.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use tidemill_connect::formats::Format;
use tidemill_connect::socket::{SocketSettings, TcpLines};
use tidemill_engine::{Durability, DurableSource, Engine, FeedSettings, Journal, StreamSettings, SyncPolicy};

use crate::memory::{Kept, Table};
use crate::send::Pace;
use crate::{points, report, statistics};

/// What is sent, and how it is journaled.
pub struct Load {
    pub messages: u64,
    pub sensors: u64,
    /// Messages per second; `None`: as fast as they are taken.
    pub rate: Option<u64>,
    pub sync: SyncPolicy,
}

pub fn measure(folder: &Path, load: &Load, kind: &str) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let mut settings = SocketSettings::new(Format::LineProtocol, points::decoder_settings(false));
    settings.end_with_last_connection = true;
    let socket = TcpLines::listen("127.0.0.1:0", false, settings)?;
    let address = socket.local_address().context("the socket has no address")?;
    let source = DurableSource {
        source: Box::new(socket),
        feed: FeedSettings::default(),
        stream: StreamSettings::default(),
        sync: load.sync,
    };
    let table = Table::default();
    let journal = Journal::open(&folder.path().join("journal"))?;
    let durability = Durability::new("statistics");
    let sinks: Vec<Box<dyn tidemill_engine::Sink>> = vec![Box::new(table.clone())];
    let processor_seconds = report::processor_seconds();
    let run = Engine::new().run_durable(statistics::plan()?, sinks, vec![source], journal, &durability)?;
    let sender = Command::new(std::env::current_exe()?)
        .args(["send", &address.to_string(), &load.messages.to_string(), &load.sensors.to_string()])
        .arg(load.rate.unwrap_or(0).to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let sent = sender.wait_with_output()?;
    ensure!(sent.status.success(), "the sender failed");
    run.running.join()?;
    let processor_seconds = report::processor_seconds() - processor_seconds;
    drop((run.feeds, run.maintenance));
    let sent = String::from_utf8(sent.stdout)?;
    let (start_ns, sender_seconds) = sent.trim().split_once(' ').context("the sender said nothing")?;
    let start_ns: u64 = start_ns.parse()?;
    let kept = table.kept();
    statistics::check(&kept.rows, &statistics::expected(load.messages, load.sensors))?;
    let end_ns = kept.commits.last().context("nothing was committed")?.0;
    let time = Duration::from_nanos(end_ns.saturating_sub(start_ns));
    let bytes = load.messages * points::text(0, 1, load.sensors).len() as u64;
    let remark = format!(
        "processor time {processor_seconds:.1} s of {:.1} s, the sender's {sender_seconds} s",
        time.as_secs_f64()
    );
    report::speed(&format!("end to end, {kind}"), load.messages, bytes, time, &remark);
    if let Some(rate) = load.rate {
        response_times(&kept, start_ns, rate)?;
    }
    Ok(())
}

fn response_times(kept: &Kept, start_ns: u64, rate: u64) -> Result<()> {
    let pace = Pace { start_ns, rate };
    let mut times = Histogram::<u64>::new_with_bounds(1000, 3_600_000_000_000, 3)?;
    let mut first = 0;
    for (committed_ns, end) in &kept.commits {
        for message in first..*end {
            times.saturating_record(committed_ns.saturating_sub(pace.due_ns(message)));
        }
        first = *end;
    }
    let time = |share| Duration::from_nanos(times.value_at_quantile(share));
    println!(
        "|   from due to commit: p50 {:.1?}, p99 {:.1?}, p99.99 {:.1?}, most {:.1?} | | | |",
        time(0.5),
        time(0.99),
        time(0.9999),
        Duration::from_nanos(times.max())
    );
    Ok(())
}
