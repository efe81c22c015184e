//! Files of requests and of offers, read line by line.

use std::marker::PhantomData;
use std::path::Path;

use tidemill_connect::{LineFile, LineFileError};
use tidemill_engine::{Cause, Fault};

use crate::request::Request;
use crate::ride_sharing::Offer;
use crate::text::{HEADER, LineError, OFFER_HEADER, parse_offer, parse_request};

/// How many bad lines are kept as examples.
const EXAMPLES_MAX: usize = 5;

/// Lines that are neither requests nor offers: they are left out and counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadLines {
    /// How many there are.
    pub count: u64,
    /// The first of them: file, line and reason.
    pub examples: Vec<String>,
}

/// What a line of a file stands for: a request or an offer.
pub trait TripLine: Sized {
    /// What messages call it.
    const RECORD: &'static str;
    /// The first line of a file; it may be missing.
    const HEADER: &'static str;

    /// Reads a line without its end.
    ///
    /// # Errors
    /// If it is not valid.
    fn parse(line: &[u8]) -> Result<Self, LineError>;

    /// The trip that somebody wants to make.
    fn trip(&self) -> &Request;
}

impl TripLine for Request {
    const RECORD: &'static str = "request";
    const HEADER: &'static str = HEADER;

    fn parse(line: &[u8]) -> Result<Self, LineError> {
        parse_request(line)
    }

    fn trip(&self) -> &Request {
        self
    }
}

impl TripLine for Offer {
    const RECORD: &'static str = "offer";
    const HEADER: &'static str = OFFER_HEADER;

    fn parse(line: &[u8]) -> Result<Self, LineError> {
        parse_offer(line)
    }

    fn trip(&self) -> &Request {
        &self.trip
    }
}

/// A file of requests or of offers in the order of their times, plain or compressed with zstd; `-` is standard input.
pub struct TripFile<T> {
    file: LineFile,
    latest: i64,
    bad_lines: BadLines,
    records: PhantomData<T>,
}

impl<T: TripLine> TripFile<T> {
    /// Opens the file.
    ///
    /// # Errors
    /// If it cannot be opened; the text names it.
    pub fn open(path: &Path) -> Result<Self, Cause> {
        Ok(TripFile {
            file: LineFile::open(path).map_err(cannot_read)?,
            latest: 0,
            bad_lines: BadLines::default(),
            records: PhantomData,
        })
    }

    /// Appends the next records, about a mebibyte of text. Returns whether there may be more.
    ///
    /// # Errors
    /// If the file cannot be read any further.
    pub fn read(&mut self, records: &mut Vec<T>) -> Result<bool, Cause> {
        self.read_numbered(|_, record| records.push(record))
    }

    /// As [`read`](Self::read); `take` gets each record and the number of its line.
    ///
    /// # Errors
    /// If the file cannot be read any further.
    pub fn read_numbered(&mut self, mut take: impl FnMut(u64, T)) -> Result<bool, Cause> {
        let name = self.file.name().to_owned();
        let Some(chunk) = self.file.next_chunk().map_err(cannot_read)? else { return Ok(false) };
        for line in chunk.lines() {
            let is_header = line.number == 1 && line.bytes.trim_ascii() == T::HEADER.as_bytes();
            if is_header {
                continue;
            }
            let record = match line.over_long {
                Some(_) => Err(format!("it is too long for one {}", T::RECORD)),
                None => record::<T>(line.bytes, self.latest),
            };
            match record {
                Ok(record) => {
                    self.latest = record.trip().requested;
                    take(line.number, record);
                }
                Err(wrong) => self.bad_lines.add(&name, line.number, &wrong),
            }
        }
        Ok(true)
    }

    /// Counts a line as a bad one that [`read_numbered`](Self::read_numbered) took for a good one.
    pub fn refuse(&mut self, line: u64, reason: &str) {
        let name = self.file.name().to_owned();
        self.bad_lines.add(&name, line, reason);
    }

    /// The bad lines so far.
    pub fn bad_lines(&self) -> &BadLines {
        &self.bad_lines
    }
}

/// A record that is not earlier than those before it.
fn record<T: TripLine>(line: &[u8], latest: i64) -> Result<T, String> {
    let record = T::parse(line).map_err(|error| error.to_string())?;
    let requested = record.trip().requested;
    if requested < latest {
        Err(format!(
            "its time is {requested}, but an earlier line has the time {latest}; sort the file by requested_s"
        ))
    } else {
        Ok(record)
    }
}

impl BadLines {
    fn add(&mut self, file: &str, line: u64, reason: &str) {
        self.count += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{file}, line {line}: {reason}"));
        }
    }

    /// These and those of another file.
    ///
    /// ```
    /// use tidemill_trip_grouping::trip_file::BadLines;
    /// let one = BadLines { count: 1, examples: vec!["requests.csv, line 2: it has 3 fields".to_owned()] };
    /// assert_eq!(one.clone().and(&one).count, 2);
    /// ```
    #[must_use]
    pub fn and(mut self, other: &BadLines) -> BadLines {
        self.count += other.count;
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.iter().take(room).cloned());
        self
    }
}

/// All requests of a file.
///
/// # Errors
/// If it cannot be read, or has no request.
pub fn read_all(path: &Path) -> Result<(Vec<Request>, BadLines), Cause> {
    let (mut file, mut requests) = (TripFile::open(path)?, Vec::new());
    while file.read(&mut requests)? {}
    if requests.is_empty() {
        Err(no_record::<Request>(path, &file.bad_lines))
    } else {
        Ok((requests, file.bad_lines))
    }
}

/// A file without a single valid line does not count as an input.
pub fn no_record<T: TripLine>(path: &Path, bad_lines: &BadLines) -> Cause {
    let example = bad_lines.examples.first().map_or(String::new(), |example| format!("; {example}"));
    Cause::user(format!("{} has no {}s{example}; its lines are {}", path.display(), T::RECORD, T::HEADER))
}

fn cannot_read(error: LineFileError) -> Cause {
    let fault = match error {
        LineFileError::Io { .. } => Fault::Operation,
        _ => Fault::User,
    };
    Cause::new(fault, error.to_string()).with_source(error)
}
