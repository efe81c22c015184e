//! A pager for results that are longer than the terminal.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use tidemill_connect::formats::encode::display_width;

use crate::terminal;

/// What names the pager; an empty name means none.
const VARIABLES: [&str; 2] = ["TIDEMILL_PAGER", "PAGER"];
/// What a shell answers if it cannot start a command.
const NOT_STARTED: [i32; 2] = [126, 127];

/// Shows a whole result: in the pager if it does not fit on the terminal, and otherwise there.
pub(crate) fn show(text: &[u8]) -> anyhow::Result<()> {
    let is_shown = is_long(text) && pager().is_some_and(|pager| page(pager, text));
    if is_shown { Ok(()) } else { terminal::write(text).map(|_| ()) }
}

/// Whether a text takes more lines than the terminal has beside the next prompt and the number of rows.
fn is_long(text: &[u8]) -> bool {
    let Some((lines, columns)) = terminal::size().filter(|_| io::stdin().is_terminal()) else { return false };
    let text = String::from_utf8_lossy(text);
    let mut left = lines.saturating_sub(2);
    text.lines().any(|line| {
        let needed = display_width(line).div_ceil(columns).max(1);
        let is_full = needed > left;
        left = left.saturating_sub(needed);
        is_full
    })
}

fn pager() -> Option<Command> {
    let Some(name) = VARIABLES.iter().find_map(env::var_os) else {
        let mut less = Command::new("less");
        if env::var_os("LESS").is_none() {
            // Quit if it fits after all, keep colours, and leave the rows on the terminal.
            less.env("LESS", "FRX");
        }
        return Some(less);
    };
    if name.to_string_lossy().trim().is_empty() {
        return None;
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(name);
    Some(shell)
}

/// Whether the pager could be started, and has shown the text.
fn page(mut pager: Command, text: &[u8]) -> bool {
    let Ok(mut child) = pager.stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // Whoever leaves the pager early has seen enough.
        let _ = input.write_all(text);
    }
    match child.wait() {
        Ok(status) => !status.code().is_some_and(|code| NOT_STARTED.contains(&code)),
        Err(_) => false,
    }
}
