//! `tidemill journal`: inspects the journal of a durable pipeline, checks whether it is intact, replays its past, repairs
//! sinks that are behind every state from which it could begin, and skips rows that it cannot get past.

mod database;
mod diff;
mod exact_replay;
mod input_rows;
mod list;
mod missing_parts;
mod repair;
mod replay;
mod show;
mod skip;
mod step;
mod verify;
mod why;

pub(crate) use show::rows as journaled_rows;

use crate::exit::Exit;

/// Inspect, check, repair and replay the journal of a durable pipeline
#[derive(Debug, clap::Subcommand)]
pub(crate) enum JournalCommand {
    Ls(list::List),
    Show(show::Show),
    Verify(verify::Verify),
    Replay(replay::Replay),
    Why(why::Why),
    Diff(diff::Diff),
    Repair(repair::Repair),
    Skip(skip::Skip),
}

impl JournalCommand {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            JournalCommand::Ls(command) => command.run(),
            JournalCommand::Show(command) => command.run(),
            JournalCommand::Verify(command) => command.run(),
            JournalCommand::Replay(command) => command.run(),
            JournalCommand::Why(command) => command.run(),
            JournalCommand::Diff(command) => command.run(),
            JournalCommand::Repair(command) => command.run(),
            JournalCommand::Skip(command) => command.run(),
        }
    }
}
