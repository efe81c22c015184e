//! The history of a run: from its file, or from the generated traffic.

use std::path::Path;

use tidemill_connect::LineFile;

use super::control::Control;
use super::error::RunError;
use super::options::{Input, RunOptions};
use crate::event::HistoryRow;
use crate::expenditures::history::History;
use crate::generator::{Generator, GeneratorConfig};
use crate::text_read::{parse_file_line, parse_history_row};

pub(super) fn history(options: &RunOptions, control: &Control) -> Result<History, RunError> {
    match (&options.history, &options.input) {
        (Some(path), _) => of_file(path, control),
        (None, Input::Generated(config)) => of_traffic(*config, control),
        (None, Input::Files(_)) => Ok(History::default()),
    }
}

fn of_file(path: &Path, control: &Control) -> Result<History, RunError> {
    let mut file = LineFile::open(path)?;
    let name = file.name().to_owned();
    let mut rows: Vec<HistoryRow> = Vec::new();
    while let Some(chunk) = file.next_chunk()? {
        if control.is_ended() {
            break;
        }
        for line in chunk.lines() {
            match parse_file_line(&line, parse_history_row) {
                Ok(row) => rows.push(row),
                Err(error) => control.bad_lines().record(&name, &line, error)?,
            }
        }
    }
    let bad_lines = control.bad_lines();
    let is_refused = rows.is_empty() && !control.is_ended();
    if let (true, Some(first)) = (is_refused, bad_lines.samples().first()) {
        let (bad_lines, first) = (bad_lines.total(), first.to_string());
        return Err(RunError::NoValidHistory { path: name, bad_lines, first });
    }
    drop(bad_lines);
    Ok(History::new(rows.into_iter()))
}

/// The generator knows the history for its queries only once it has made them, but the run needs it before. So the
/// traffic is generated twice, which takes far less time than answering it.
fn of_traffic(config: GeneratorConfig, control: &Control) -> Result<History, RunError> {
    let mut generator = Generator::new(config)?;
    let mut events = Vec::new();
    while !control.is_ended() && generator.next_second(&mut events) {
        events.clear();
    }
    Ok(History::new(generator.history().iter().copied()))
}
