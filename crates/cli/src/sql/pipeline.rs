//! `tidemill run pipeline.sql`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidemill_engine::{Positions, Repair, ReplaceFrom, Skip, WorkerProcess, inspect};
use tidemill_server::{HttpOptions, HttpServer, RecentLog};
use tidemill_service::Runtime;
use tidemill_sql::{Pipeline, Planner, StatementKind};

use super::execute::{Executor, StatementOrigin};
use super::{RowOptions, SessionOptions, script, user_error};
use crate::exit::Exit;
use crate::interrupt::{Interrupt, StopLimits, parse_time};
use crate::terminal;

/// Run the sinks of a script, or of a database, until their input ends or Ctrl-C is pressed
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct RunPipeline {
    /// The script; - reads standard input
    #[arg(value_name = "FILE", required_unless_present = "database", conflicts_with = "database")]
    script: Option<PathBuf>,
    /// Run what is defined in this folder; tidemill sql --database FOLDER defines it
    #[arg(long, value_name = "FOLDER")]
    database: Option<PathBuf>,
    /// Serve metrics and status by HTTP while it runs, such as on 127.0.0.1:8087; an address of this machine alone
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Let the script replace the query that its journal belongs to: it is computed from the rows that the journal has, into
    /// sinks that are empty, beside the state of the other query, and takes over when it has caught up. With from-kept,
    /// also if the journal has lost the first rows
    #[arg(long, value_name = "FROM", num_args = 0..=1, require_equals = true, default_missing_value = "first",
          value_parser = parse_replace, requires = "script")]
    replace: Option<ReplaceFrom>,
    /// How long the pipeline may take to end in order when it is asked to, such as '30 s'; then it ends at once [default: 5 s
    /// after Ctrl-C, 50 s when the system asks]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stop_within: Option<Duration>,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    options: SessionOptions,
}

fn parse_replace(text: &str) -> Result<ReplaceFrom, String> {
    match text {
        "first" => Ok(ReplaceFrom::First),
        "from-kept" => Ok(ReplaceFrom::Kept),
        _ => Err("use --replace, or --replace=from-kept".to_owned()),
    }
}

/// How a script or database is run.
#[derive(Clone, Debug, Default)]
struct RunOptions {
    http: Option<SocketAddr>,
    /// The log that is served there.
    log: Option<RecentLog>,
    replace: Option<ReplaceFrom>,
    stop_within: Option<Duration>,
}

impl RunPipeline {
    /// Whether it is looked at by HTTP.
    pub(crate) fn serves_http(&self) -> bool {
        self.http.is_some()
    }

    pub(crate) fn run(&self, log: Option<RecentLog>) -> anyhow::Result<Exit> {
        let options = RunOptions { http: self.http, log, replace: None, stop_within: self.stop_within };
        match (&self.script, &self.database) {
            (Some(script), _) => {
                let options = RunOptions { replace: self.replace, ..options };
                run_script_with(script, self.options.planner_of(script), self.rows, options)
            }
            (None, Some(folder)) => run_database(folder, self.options.planner(), self.rows, options),
            (None, None) => Err(user_error("name the script, or the folder of a database".into())),
        }
    }
}

/// Runs the sinks and materialized views of a database; or this process's part of that.
fn run_database(
    folder: &Path,
    planner: Planner,
    rows: RowOptions,
    options: RunOptions,
) -> anyhow::Result<Exit> {
    // Before anything reads standard input.
    if let Some(member) = WorkerProcess::from_environment()? {
        return Ok(super::run_member(planner, member));
    }
    let http = options.http.map(|address| serve_http(address, options.log)).transpose()?;
    let runtime = super::database::open_existing(folder, planner)?;
    let mut executor = executor(&runtime, rows, options.stop_within)?;
    pipeline(&mut executor, folder, http.as_ref(), None)?.ok_or_else(|| {
        let folder = folder.display();
        user_error(format!(
            "the database in '{folder}' has no sink and no materialized view, so there is nothing to run; add one: \
             tidemill sql --database {folder} -c \"CREATE SINK ...\""
        ))
    })
}

/// Serves metrics and status while something runs.
fn serve_http(address: SocketAddr, log: Option<RecentLog>) -> anyhow::Result<HttpServer> {
    let http = HttpServer::start(address, HttpOptions { log, ..HttpOptions::default() })?;
    terminal::tell(&super::serve::where_http_is(&http));
    Ok(http)
}

/// Runs the sinks and materialized views of a script or database, which is reported under its name.
fn pipeline(
    executor: &mut Executor,
    path: &Path,
    http: Option<&HttpServer>,
    replace: Option<ReplaceFrom>,
) -> anyhow::Result<Option<Exit>> {
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let runtime = executor.session.runtime().clone();
    executor.pipeline_observed(replace, |execution, explained| {
        let http = http?;
        let observed = runtime.observe(&name, explained, execution);
        // It listens on this machine only, where nobody is asked.
        http.serve(&runtime).ok()?;
        Some(observed)
    })
}

pub(super) fn executor(
    runtime: &Runtime,
    rows: RowOptions,
    stop_within: Option<Duration>,
) -> anyhow::Result<Executor> {
    Ok(Executor {
        session: super::session(runtime, rows.strict),
        format: rows.format,
        interrupt: Interrupt::of_command(StopLimits::of_pipeline(stop_within))?,
        origin: StatementOrigin::Script,
        database: None,
        shows_time: false,
        pages: false,
    })
}

/// Whether the durable pipeline of a script can resume with the journal in a folder; if not, what a repair would do,
/// which is done if `is_to_be_done`.
pub(crate) fn repair_script(
    path: &Path,
    planner: Planner,
    folder: &Path,
    is_to_be_done: bool,
) -> anyhow::Result<Option<Repair>> {
    let opened = durable_pipeline(path, planner, folder)?.open()?;
    Ok(opened.repair(is_to_be_done)?)
}

/// What it takes to leave rows out of the durable pipeline of a script, which is done if `is_to_be_done`.
pub(crate) fn skip_script(
    path: &Path,
    planner: Planner,
    folder: &Path,
    (stream, positions): (Option<&str>, &Positions),
    is_to_be_done: bool,
) -> anyhow::Result<Skip> {
    let opened = durable_pipeline(path, planner, folder)?.open()?;
    Ok(opened.skip(stream, positions, is_to_be_done)?)
}

/// The pipeline of a script with the journal in a folder, which is there. What the script asks is not answered.
pub(super) fn durable_pipeline(path: &Path, mut planner: Planner, folder: &Path) -> anyhow::Result<Pipeline> {
    // Reports a wrong name before a folder of that name is created.
    inspect::list(folder)?;
    let script = script::read(path)?;
    for statement in script.statements()?.iter().filter(|statement| is_definition(&statement.kind)) {
        planner.execute(statement).map_err(script::Wrong::from)?;
    }
    planner.settings_mut().journal = Some(folder.to_owned());
    let pipeline = planner.pipeline()?;
    pipeline.ok_or_else(|| user_error(format!("'{}' defines no sink", script.name)))
}

/// Runs the statements of a script, then its sinks; or this process's part of a query of another process.
pub(crate) fn run_script(path: &Path, planner: Planner, rows: RowOptions) -> anyhow::Result<Exit> {
    run_script_with(path, planner, rows, RunOptions::default())
}

fn run_script_with(
    path: &Path,
    planner: Planner,
    rows: RowOptions,
    RunOptions { http, log, replace, stop_within }: RunOptions,
) -> anyhow::Result<Exit> {
    // Before anything reads standard input.
    if let Some(member) = WorkerProcess::from_environment()? {
        return Ok(super::run_member(planner, member));
    }
    let script = script::read(path)?;
    let statements = script.statements()?;
    let http = http.map(|address| serve_http(address, log)).transpose()?;
    let mut executor = executor(&Runtime::new(planner), rows, stop_within)?;
    for statement in &statements {
        let exit = executor.statement(statement)?;
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    let answers = statements.iter().any(|statement| !is_definition(&statement.kind));
    match pipeline(&mut executor, path, http.as_ref(), replace)? {
        Some(exit) => Ok(exit),
        None if answers => Ok(Exit::Done),
        None => Err(user_error(format!(
            "'{}' has no sink, no materialized view and no query, so there is nothing to run; add CREATE SINK \
             ... FROM ... or a SELECT",
            script.name
        ))),
    }
}

pub(crate) fn is_definition(kind: &StatementKind) -> bool {
    !matches!(
        kind,
        StatementKind::Query(..)
            | StatementKind::Show(_)
            | StatementKind::Describe(_)
            | StatementKind::Subscribe(_)
            | StatementKind::ExplainOutput(_)
            | StatementKind::ExplainWhy(_)
            | StatementKind::Explain { .. }
    )
}
