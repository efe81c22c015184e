//! The `tidemill` command.

#[macro_use]
mod exit;
mod bench;
#[cfg(feature = "sql")]
mod cases;
mod interrupt;
#[cfg(feature = "sql")]
mod journal;
mod linear_road;
mod logging;
mod quantity;
#[cfg(feature = "sql")]
mod sql;
mod terminal;
mod trips;
#[cfg(feature = "sql")]
mod wrong_script;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
#[cfg(feature = "sql")]
use tidemill_server::{RecentLog, RecentLogLayer};
#[cfg(feature = "sql")]
use tracing::Level;

use crate::exit::Exit;

#[global_allocator]
static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;

/// Continuous queries over massive streams, in cycles
#[derive(Debug, Parser)]
#[command(
    name = "tidemill",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = concat!("Example:\n  tidemill linear-road run\n\n", exit_codes!())
)]
struct Arguments {
    #[command(flatten)]
    log: logging::LogOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(subcommand)]
    LinearRoad(linear_road::LinearRoad),
    #[command(subcommand)]
    Trips(trips::Trips),
    #[command(subcommand)]
    Bench(bench::Bench),
    #[cfg(feature = "sql")]
    Sql(sql::Prompt),
    #[cfg(feature = "sql")]
    Run(sql::RunPipeline),
    #[cfg(feature = "sql")]
    Explain(sql::ExplainPipeline),
    #[cfg(feature = "sql")]
    Validate(sql::ValidatePipeline),
    #[cfg(feature = "sql")]
    Test(cases::TestPipeline),
    #[cfg(feature = "sql")]
    Serve(sql::Serve),
    #[cfg(feature = "sql")]
    Gateway(sql::Gateway),
    #[cfg(feature = "sql")]
    Status(sql::ShowStatus),
    #[cfg(feature = "sql")]
    Top(sql::Top),
    #[cfg(feature = "sql")]
    #[command(subcommand)]
    Journal(journal::JournalCommand),
}

impl Command {
    /// Whether it runs for so long that nobody waits for its end.
    fn is_unattended(&self) -> bool {
        #[cfg(feature = "sql")]
        return matches!(self, Command::Run(_) | Command::Serve(_) | Command::Gateway(_));
        #[cfg(not(feature = "sql"))]
        false
    }

    /// The log that is kept for those who look at it by HTTP, and how severe its records are. That of a pipeline has no more than
    /// warnings: with more, bad rows would be reported before it is known whether the summary will do so.
    #[cfg(feature = "sql")]
    fn kept_log(&self) -> Option<(RecentLog, Level)> {
        match self {
            Command::Serve(_) => Some((RecentLog::default(), Level::INFO)),
            Command::Run(command) if command.serves_http() => Some((RecentLog::default(), Level::WARN)),
            _ => None,
        }
    }
}

#[cfg(feature = "sql")]
fn kept_layer(log: &RecentLog, level: Level) -> logging::KeptLayer {
    (level.into(), Box::new(RecentLogLayer::new(log, level)))
}

fn main() -> ExitCode {
    tidemill_allocator::tune();
    let arguments = Arguments::parse();
    #[cfg(feature = "sql")]
    let log = arguments.command.kept_log();
    #[cfg(feature = "sql")]
    let kept = log.as_ref().map(|(log, level)| kept_layer(log, *level));
    #[cfg(not(feature = "sql"))]
    let kept = None;
    if let Err(wrong) = arguments.log.start(arguments.command.is_unattended(), kept) {
        terminal::tell(&format!("error: {wrong}"));
        return Exit::BadInput.into();
    }
    let ended = match arguments.command {
        Command::LinearRoad(command) => command.run(),
        Command::Trips(command) => command.run(),
        Command::Bench(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Sql(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Run(command) => command.run(log.map(|(log, _)| log)),
        #[cfg(feature = "sql")]
        Command::Explain(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Validate(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Test(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Serve(command) => command.run(log.map(|(log, _)| log)),
        #[cfg(feature = "sql")]
        Command::Gateway(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Status(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Top(command) => command.run(),
        #[cfg(feature = "sql")]
        Command::Journal(command) => command.run(),
    };
    let exit = ended.unwrap_or_else(|error| {
        exit::report(&error);
        Exit::of(&error)
    });
    exit.into()
}
