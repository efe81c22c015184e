//! `tidemill status` and `tidemill top`: what runs, from outside.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::status_client::Login;
use super::{status_client, status_table};
use crate::exit::Exit;
use crate::{interrupt, terminal};

/// How often a wait looks whether it is asked to end.
const LOOK: Duration = Duration::from_millis(20);
/// Moves to the upper left corner, and clears from there.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Show what a server, or a script that runs with --http, is doing
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct ShowStatus {
    /// Where it serves HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8087")]
    http: SocketAddr,
    #[command(flatten)]
    login: Login,
    /// Show the whole status as JSON
    #[arg(long)]
    json: bool,
}

impl ShowStatus {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let status = status_client::ask(self.http, &self.login)?;
        if self.json {
            terminal::show(&serde_json::to_string_pretty(&status)?)?
        } else {
            terminal::show(status_table::table(&status, None).trim_end())?
        }
        Ok(Exit::Done)
    }
}

/// Show what a server is doing, again and again
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Top {
    /// Where it serves HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8087")]
    http: SocketAddr,
    #[command(flatten)]
    login: Login,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    every: u32,
}

impl Top {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let stop = interrupt::flag()?;
        let mut before: Option<Value> = None;
        loop {
            let start = Instant::now();
            // The first look says what is wrong; later the server may be restarted meanwhile.
            let (status, text) = match status_client::ask(self.http, &self.login) {
                Ok(status) => {
                    let text = status_table::table(&status, before.as_ref());
                    (Some(status), text)
                }
                Err(cause) if before.is_none() => return Err(cause.into()),
                Err(cause) => (None, format!("{cause}\n")),
            };
            if !self.show(&text)? {
                return Ok(Exit::Done);
            }
            before = status.or(before);
            while start.elapsed() < Duration::from_secs(self.every.into()) {
                if stop.load(Ordering::SeqCst) {
                    return Ok(Exit::Done);
                }
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Shows a table in place of the last one; elsewhere than on a terminal, after it. Whether somebody still reads.
    fn show(&self, text: &str) -> anyhow::Result<bool> {
        let Some((lines, columns)) = terminal::size() else {
            return terminal::write(format!("{text}\n").as_bytes());
        };
        let head = format!("tidemill top: {}, every {} s; Ctrl-C ends it", self.http, self.every);
        let all = std::iter::once(head.as_str()).chain(text.lines());
        let fitting = all.take(lines.saturating_sub(1)).map(|line| console::truncate_str(line, columns, "…"));
        terminal::write(format!("{CLEAR}{}\n", fitting.collect::<Vec<_>>().join("\n")).as_bytes())
    }
}
