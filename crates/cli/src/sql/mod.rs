//! `tidemill sql`, `run`, `explain`, `validate`: continuous queries in SQL.

mod background;
mod client_command;
mod completion;
mod counted;
mod database;
mod editor;
mod execute;
mod explain;
mod gateway;
mod group_trips;
mod history;
mod listing;
mod notices;
mod open_files;
mod option_context;
mod pager;
mod past;
mod piped;
mod pipeline;
mod prompt;
mod query_progress;
mod register;
mod replacement;
mod rows;
mod script;
mod serve;
mod share_rides;
mod status;
mod status_client;
mod status_table;
mod summary;
mod table_display;
mod trip_columns;
mod unfinished;
mod user_folders;
mod validate;

pub(crate) use database::{CATALOGUE, JOURNAL};
pub(crate) use explain::ExplainPipeline;
pub(crate) use gateway::Gateway;
pub(crate) use past::{look, past_of_query, past_of_script, time_ns};
pub(crate) use pipeline::{RunPipeline, is_definition, repair_script, run_script, skip_script};
pub(crate) use prompt::Prompt;
pub(crate) use rows::RowFormat;
pub(crate) use serve::Serve;
pub(crate) use status::{ShowStatus, Top};
pub(crate) use validate::ValidatePipeline;

use std::path::Path;

use tidemill_engine::{Cause, MemoryBudget, WorkerProcess, chain};
use tidemill_service::{Error, Runtime, Session};
use tidemill_sql::Planner;

use crate::exit::Exit;

/// Options of every command that runs queries.
#[derive(Debug, clap::Args)]
pub(crate) struct SessionOptions {
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = crate::linear_road::parse_workers)]
    pub workers: Option<usize>,
    /// Processes on this machine for each query; --workers counts the threads of each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub processes: u16,
    /// Memory that all queries of this process together may hold, such as '4 GB' [default: half of what the machine or
    /// its control group has]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match tidemill_sql::parse_bytes(text)? {
        0 => Err("at least one byte".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Options of the commands that show rows.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct RowOptions {
    /// How rows of a SELECT are shown
    #[arg(long, value_enum, default_value_t)]
    pub format: RowFormat,
    /// End with exit code 2 at the first unusable row, result that does not fit, or row that a sink rejects
    #[arg(long)]
    pub strict: bool,
}

impl SessionOptions {
    /// A planner for a script: the journal of a durable pipeline is next to the script, unless the script says
    /// otherwise.
    pub fn planner_of(&self, script: &Path) -> Planner {
        let mut planner = self.planner();
        if script != Path::new("-") {
            planner.settings_mut().journal = Some(script.with_extension("journal"));
        }
        planner
    }

    /// A planner with everything that the command knows by name.
    pub fn planner(&self) -> Planner {
        let mut planner = planner_with_all_names();
        let settings = planner.settings_mut();
        settings.processes = self.processes.into();
        let cached = |name: &str| user_folders::cache().map(|folder| folder.join(name));
        (settings.split_profiles, settings.cost_profiles) =
            (cached("split-profiles"), cached("cost-profiles"));
        let memory_max = self.memory.unwrap_or(settings.memory.limit());
        settings.memory = MemoryBudget::of_releasing_threads(memory_max, tidemill_allocator::release);
        if let Some(workers) = self.workers {
            settings.workers = workers;
        }
        planner
    }
}

/// A planner with everything that the command knows by name, and the settings that nobody has changed.
pub(crate) fn planner_with_all_names() -> Planner {
    let mut planner = Planner::new();
    register::register(&mut planner);
    planner
}

/// The text of a script.
pub(crate) fn read_script(path: &Path) -> anyhow::Result<String> {
    script::read(path).map(|script| script.text)
}

/// The only connection to a runtime.
fn session(runtime: &Runtime, is_strict: bool) -> Session {
    let mut session = Session::new(runtime);
    session.set_strict(is_strict);
    session
}

/// Runs the part of a query for which this process was started, according to the process that started it.
fn run_member(planner: Planner, member: WorkerProcess) -> Exit {
    match planner.run_member(member) {
        Ok(()) => Exit::Done,
        // Process 0 reports why; the log of this one has what does not travel to it.
        Err(cause) => {
            tracing::error!(causes = ?chain(&cause), "this worker process has failed");
            Exit::Failed
        }
    }
}

/// An error of the service, for the exit code and the message.
pub(crate) fn of_service(error: Error) -> anyhow::Error {
    match error {
        Error::Statement(error) => script::Wrong::from(*error).into(),
        Error::Query(cause) | Error::NotAllowed(cause) => cause.into(),
        Error::Refused(refused) => user_error(refused.message),
        Error::NotRunning { .. } => Cause::from(error).into(),
    }
}

/// An error that the user can correct.
pub(crate) fn user_error(text: String) -> anyhow::Error {
    Cause::user(text).into()
}
