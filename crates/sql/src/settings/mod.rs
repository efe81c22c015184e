//! Settings of a session: `SET name = value`. The `registry` has the name, the kind, the meaning and the effect of each.

mod kept;
mod persisted_value;
mod registry;

use std::path::PathBuf;
use std::time::Duration;

use tidemill_engine::{FeedSettings, MemoryBudget, Rebalancing, machine_memory_bytes};

use self::registry::{SETTINGS, Setting};
use crate::gateway_place::GatewayPlace;
use crate::stand_ins::StandIns;
use crate::statement::Options;
use crate::statement::declared::{ListedOption, OptionGroup, OptionOwner, OptionValues};
use crate::text::TextError;

/// How queries of a session run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Worker threads, of each process.
    pub workers: usize,
    /// Processes of this machine over which queries run, including this one. More than one only if the others call
    /// [`Planner::run_member`](crate::Planner::run_member). Not available to `SET`.
    pub processes: usize,
    /// Logical partitions of each operator with keys. Part of a query: with a different number, state cannot be
    /// restored.
    pub partitions: u32,
    /// The most events in a cycle.
    pub cycle_events: u32,
    /// Whether cycles are closed at exactly that number, so that every run has the same cuts.
    pub cycle_fixed: bool,
    /// How partitions of operators move between workers. `SET` turns it off and on.
    pub rebalancing: Rebalancing,
    /// The most groups that an aggregation may hold.
    pub max_groups: usize,
    /// The most rows that a join, a running function or a buffer may hold.
    pub max_state_rows: usize,
    /// The memory of the process, which all queries with clones of these settings share. Not available to `SET`.
    pub memory: MemoryBudget,
    /// The memory of queries that only read views and tables, if they do not share [`memory`](Settings::memory) with those that
    /// run. Not available to `SET`.
    pub readers_memory: Option<MemoryBudget>,
    /// How much the threads of sessions leave the processors to queries that run by name, from 0 (they are as urgent) to 19. Not
    /// available to `SET`.
    pub readers_niceness: u8,
    /// The most bytes of memory that a query may hold, if not all of [`memory`](Settings::memory).
    pub memory_limit: Option<u64>,
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
    /// What stands in for sources and the clock in a test. Not available to `SET`.
    pub stand_ins: Option<StandIns>,
    /// Where the rows of sources enter that name a gateway. Not available to `SET`.
    pub gateways: GatewayPlace,
    /// The file that stores the costs of splits on this machine, for `EXPLAIN` and the next run; `None`: they are not
    /// stored. Not available to `SET`.
    pub split_profiles: Option<PathBuf>,
    /// The file that stores what cycles of queries cost on this machine, if their sinks have them measured; `None`: they are
    /// not stored. Not available to `SET`.
    pub cost_profiles: Option<PathBuf>,
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
            rebalancing: Rebalancing::default(),
            max_groups: 10_000_000,
            max_state_rows: 20_000_000,
            memory: memory_of_process(),
            readers_memory: None,
            readers_niceness: 0,
            memory_limit: None,
            max_result_rows: 10_000_000,
            idle_after: FeedSettings::IDLE_AFTER,
            max_latency: None,
            journal: None,
            snapshot_every: Duration::from_secs(10),
            replay: None,
            stand_ins: None,
            gateways: GatewayPlace::default(),
            split_profiles: None,
            cost_profiles: None,
        }
    }
}

/// Half of the memory that the machine or the control group has for this process: the rest is for what is in flight, and
/// for what only counts when it is kept.
fn memory_of_process() -> MemoryBudget {
    machine_memory_bytes().map_or_else(MemoryBudget::unlimited, |bytes| MemoryBudget::new(bytes / 2))
}

impl Settings {
    /// The memory of one query with these settings.
    pub(crate) fn memory_of_query(&self) -> MemoryBudget {
        self.memory.query(self.memory_limit)
    }

    /// The memory that queries share which only read views and tables.
    pub fn memory_of_readers(&self) -> &MemoryBudget {
        self.readers_memory.as_ref().unwrap_or(&self.memory)
    }

    /// The memory of one query with these settings that only reads views and tables.
    pub(crate) fn memory_of_reader(&self) -> MemoryBudget {
        self.memory_of_readers().query(self.memory_limit)
    }

    /// Executes `SET name = value`.
    pub(crate) fn set(&mut self, name: &str, value: &Options) -> Result<(), TextError> {
        let values = OptionValues::read(value, SETTINGS.iter().map(|setting| &setting.definition))?;
        for setting in SETTINGS.iter().filter(|setting| setting.definition.name == name) {
            (setting.set)(self, &values, name);
        }
        Ok(())
    }

    /// The name, the value and the meaning of each setting that `SET` changes.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, String, &'static str)> {
        SETTINGS.iter().map(|setting| (setting.definition.name, (setting.show)(self), setting.definition.doc))
    }

    /// The value of a setting, as written.
    pub(crate) fn show(&self, name: &str) -> String {
        let found = self.rows().find(|(known, ..)| *known == name);
        found.map_or_else(String::new, |(_, value, _)| value)
    }

    /// The settings and their defaults, for people.
    pub(crate) fn option_group() -> OptionGroup {
        let defaults = Settings::default();
        let listed = |setting: &Setting| {
            let listed = ListedOption::from(&setting.definition);
            if listed.default.is_empty() {
                ListedOption { default: (setting.show)(&defaults), ..listed }
            } else {
                listed
            }
        };
        OptionGroup {
            owner: OptionOwner::Settings,
            name: String::new(),
            doc: "every session".to_owned(),
            options: SETTINGS.iter().map(listed).collect(),
        }
    }
}
