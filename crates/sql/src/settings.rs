//! Settings of a session: `SET name = value`.

use std::path::PathBuf;
use std::time::Duration;

use crate::statement::Options;
use crate::text_error::TextError;

/// How queries of a session run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Worker threads, of each process.
    pub workers: usize,
    /// Processes of this machine over which queries run, including this one. More than one only if the others call
    /// [`Session::run_member`](crate::Session::run_member). Not available to `SET`.
    pub processes: usize,
    /// Logical partitions of each operator with keys. Part of a query: with a different number, state cannot be
    /// restored.
    pub partitions: u32,
    /// The most events in a cycle.
    pub cycle_events: u32,
    /// Whether cycles are closed at exactly that number, so that every run has the same cuts.
    pub cycle_fixed: bool,
    /// The most groups that an aggregation may hold.
    pub max_groups: usize,
    /// The most rows that a join, a running function or a buffer may hold.
    pub max_state_rows: usize,
    /// The most rows of a result that is shown when the query has ended.
    pub max_result_rows: usize,
    /// After this long without rows a source no longer holds back the watermark; zero: it always does.
    pub idle_after: Duration,
    /// The bound on the time from arrival to result for queries that state none.
    pub max_latency: Option<Duration>,
    /// The folder of a durable pipeline's journal.
    pub journal: Option<PathBuf>,
    /// How often a durable pipeline's state is snapshotted.
    pub snapshot_every: Duration,
    /// Reads durable sources from the journals in this folder, from beginning to end, instead of from their usual
    /// place. Not available to `SET`.
    pub replay: Option<PathBuf>,
    /// The file that stores the costs of splits on this machine, for `EXPLAIN` and the next run; `None`: they are not
    /// stored. Not available to `SET`.
    pub split_profiles: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Settings {
            workers,
            processes: 1,
            partitions: 16,
            cycle_events: 262_144,
            cycle_fixed: false,
            max_groups: 10_000_000,
            max_state_rows: 20_000_000,
            max_result_rows: 10_000_000,
            idle_after: Duration::from_secs(5),
            max_latency: None,
            journal: None,
            snapshot_every: Duration::from_secs(10),
            replay: None,
            split_profiles: None,
        }
    }
}

/// Names, values and meanings, for `SHOW SETTINGS` and errors.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("workers", "worker threads"),
    ("partitions", "logical partitions of each operator with keys"),
    ("cycle_events", "the most events in a cycle"),
    ("cycle_fixed", "whether each cycle has exactly that many events"),
    ("max_groups", "groups that an aggregation may hold"),
    ("max_state_rows", "rows that a join, a running function or a buffer may hold"),
    ("max_result_rows", "rows of a result that is shown at the end"),
    ("idle_after", "after so long without rows a source does not hold time back; '0 s': it always does"),
    ("max_latency", "the bound on the time from arrival to result; '0 s': none"),
    ("journal", "the folder of a durable pipeline's journal"),
    ("snapshot_every", "how often a durable pipeline's state is snapshotted"),
];

impl Settings {
    /// Executes `SET name = value`.
    pub(crate) fn set(&mut self, name: &str, value: &Options) -> Result<(), TextError> {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        value.finish(&names)?;
        let count = |most: i64| Ok(value.integer(name, 1..=most)?.unwrap_or(1));
        let duration = || {
            let length_ns = value.duration_ns(name)?.unwrap_or(0);
            Ok(Duration::from_nanos(length_ns.max(0) as u64))
        };
        match name {
            "workers" => self.workers = count(256)? as usize,
            "partitions" => self.partitions = count(4096)? as u32,
            "cycle_events" => self.cycle_events = count(1 << 28)? as u32,
            "cycle_fixed" => self.cycle_fixed = value.boolean(name)?.unwrap_or(false),
            "max_groups" => self.max_groups = count(1 << 32)? as usize,
            "max_state_rows" => self.max_state_rows = count(1 << 32)? as usize,
            "max_result_rows" => self.max_result_rows = count(1 << 32)? as usize,
            "idle_after" => self.idle_after = duration()?,
            "journal" => self.journal = value.text(name)?.map(PathBuf::from),
            "snapshot_every" => self.snapshot_every = duration()?.max(Duration::from_millis(10)),
            _ => self.max_latency = Some(duration()?).filter(|bound| !bound.is_zero()),
        }
        Ok(())
    }

    /// The value of a setting, as written.
    pub(crate) fn show(&self, name: &str) -> String {
        let duration = |length: Duration| crate::duration::display_ns(length.as_nanos() as i64);
        match name {
            "workers" => self.workers.to_string(),
            "partitions" => self.partitions.to_string(),
            "cycle_events" => self.cycle_events.to_string(),
            "cycle_fixed" => self.cycle_fixed.to_string(),
            "max_groups" => self.max_groups.to_string(),
            "max_state_rows" => self.max_state_rows.to_string(),
            "max_result_rows" => self.max_result_rows.to_string(),
            "idle_after" => duration(self.idle_after),
            "journal" => self.journal.as_ref().map_or("none".into(), |folder| folder.display().to_string()),
            "snapshot_every" => duration(self.snapshot_every),
            _ => self.max_latency.map_or("none".into(), duration),
        }
    }
}
