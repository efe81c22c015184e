//! Files of requests, read line by line.

use std::path::Path;

use tidemill_connect::{LineFile, LineFileError};
use tidemill_engine::{Cause, Fault};

use crate::request::Request;
use crate::text::{HEADER, parse_request};

/// How many bad lines are kept as examples.
const EXAMPLES_MAX: usize = 5;

/// Lines that are not requests: they are left out and counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadLines {
    /// How many there are.
    pub count: u64,
    /// The first of them: file, line and reason.
    pub examples: Vec<String>,
}

/// A file of requests in the order of their times, plain or compressed with zstd; `-` is standard input.
pub struct RequestFile {
    file: LineFile,
    latest: i64,
    bad_lines: BadLines,
}

impl RequestFile {
    /// Opens the file.
    ///
    /// # Errors
    /// If it cannot be opened; the text names it.
    pub fn open(path: &Path) -> Result<Self, Cause> {
        Ok(RequestFile {
            file: LineFile::open(path).map_err(cannot_read)?,
            latest: 0,
            bad_lines: BadLines::default(),
        })
    }

    /// Appends the next requests, about a mebibyte of text. Returns whether there may be more.
    ///
    /// # Errors
    /// If the file cannot be read any further.
    pub fn read(&mut self, requests: &mut Vec<Request>) -> Result<bool, Cause> {
        let name = self.file.name().to_owned();
        let Some(chunk) = self.file.next_chunk().map_err(cannot_read)? else { return Ok(false) };
        for line in chunk.lines() {
            let is_header = line.number == 1 && line.bytes.trim_ascii() == HEADER.as_bytes();
            if is_header {
                continue;
            }
            let wrong = match parse_request(line.bytes) {
                _ if line.over_long.is_some() => "it is too long for a request".to_owned(),
                Ok(request) if request.requested < self.latest => {
                    format!(
                        "its time is {}, but an earlier line has the time {}; sort the file by requested_s",
                        request.requested, self.latest
                    )
                }
                Ok(request) => {
                    self.latest = request.requested;
                    requests.push(request);
                    continue;
                }
                Err(error) => error.to_string(),
            };
            self.bad_lines.count += 1;
            if self.bad_lines.examples.len() < EXAMPLES_MAX {
                self.bad_lines.examples.push(format!("{name}, line {}: {wrong}", line.number));
            }
        }
        Ok(true)
    }

    /// The bad lines so far.
    pub fn bad_lines(&self) -> &BadLines {
        &self.bad_lines
    }
}

/// All requests of a file.
///
/// # Errors
/// If it cannot be read, or has no request.
pub fn read_all(path: &Path) -> Result<(Vec<Request>, BadLines), Cause> {
    let (mut file, mut requests) = (RequestFile::open(path)?, Vec::new());
    while file.read(&mut requests)? {}
    match requests.is_empty() {
        true => Err(no_request(path, &file.bad_lines)),
        false => Ok((requests, file.bad_lines)),
    }
}

/// A file without a single valid line does not count as an input.
pub fn no_request(path: &Path, bad_lines: &BadLines) -> Cause {
    let example = bad_lines.examples.first().map_or(String::new(), |example| format!("; {example}"));
    Cause::user(format!("{} has no requests{example}; its lines are {HEADER}", path.display()))
}

fn cannot_read(error: LineFileError) -> Cause {
    let fault = match error {
        LineFileError::Io { .. } => Fault::Operation,
        _ => Fault::User,
    };
    Cause::new(fault, error.to_string()).with_source(error)
}
