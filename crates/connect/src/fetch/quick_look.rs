//! The parts of a file that show its columns: the beginning of a text, the ends of a file that knows its own columns. So a
//! statement does not fetch a file that is fetched once more when a query reads it.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use tidemill_core::Cause;

use super::answer::{Content, checked, too_long};
use super::exchange::{Exchange, Part};
use super::failure::Failure;
use super::fetched_file::FetchedFile;
use super::location::Location;
use super::run::run_within;
use super::settings::FetchSettings;

/// How long it may take.
const TIME_MAX: Duration = Duration::from_secs(300);
/// How many attempts there are.
const ATTEMPTS_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How many bytes at the end of a file hold its columns, mostly.
const END_BYTES: u64 = 64 * 1024;
/// How many bytes a file's description of itself may have.
const DESCRIPTION_BYTES_MAX: u64 = 256 << 20;

/// The beginning of a text: so many bytes, or all if it is shorter.
pub(crate) fn text_prefix(
    place: &Location,
    content: Content,
    bytes: u64,
    settings: &FetchSettings,
) -> Result<FetchedFile, Cause> {
    let exchange = Exchange::new(place, settings)?;
    attempted(&exchange, async || {
        let response = exchange.get(None).await?;
        let (response, _) = checked(&exchange, response, content).await?;
        let mut file = temporary()?;
        let written = save(&exchange, response, &mut file, bytes).await?;
        Ok(FetchedFile::new(file, exchange.shown.clone(), written))
    })
}

/// The ends of a file in the format Parquet or Arrow IPC, in a file of its length that is empty between them. If the server
/// cannot send parts: all of it.
pub(crate) fn columnar_ends(place: &Location, settings: &FetchSettings) -> Result<FetchedFile, Cause> {
    let exchange = Exchange::new(place, settings)?;
    attempted(&exchange, async || {
        let mut file = temporary()?;
        let length = match part(&exchange, format!("bytes=-{END_BYTES}"), &mut file).await? {
            Parts::All(length) => return Ok(FetchedFile::new(file, exchange.shown.clone(), length)),
            Parts::Some(length) => length,
        };
        let wanted = length.min(description_bytes(&file, length).map_err(failed)?);
        if wanted > DESCRIPTION_BYTES_MAX {
            return Err(Failure::Final(Cause::resource(format!(
                "{}: the description of its columns would have {wanted} bytes; declare the columns",
                exchange.shown
            ))));
        }
        let missing = [(0, END_BYTES.min(length)), (length - wanted, length.saturating_sub(END_BYTES))];
        for (start, end) in missing.into_iter().filter(|(start, end)| start < end) {
            part(&exchange, format!("bytes={start}-{}", end - 1), &mut file).await?;
        }
        Ok(FetchedFile::new(file, exchange.shown.clone(), length))
    })
}

/// How many bytes at the end of a file describe it: its last bytes say so.
fn description_bytes(file: &File, length: u64) -> std::io::Result<u64> {
    let mut end = [0; 10];
    if length < 12 {
        return Ok(length);
    }
    file.read_exact_at(&mut end, length - 10)?;
    let number = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
    let [a, b, c, d, e, f, ..] = end;
    Ok(match () {
        // Parquet: the length, and PAR1.
        () if &end[6..] == b"PAR1" => number([c, d, e, f]) + 8,
        // Arrow IPC: the length, and ARROW1.
        () if &end[4..] == b"ARROW1" => number([a, b, c, d]) + 10,
        // A stream begins with its columns.
        () => 0,
    })
}

enum Parts {
    /// All of the file, of this length.
    All(u64),
    /// A part of a file of this length.
    Some(u64),
}

/// Puts a part of a file where it belongs.
async fn part(exchange: &Exchange, range: String, file: &mut File) -> Result<Parts, Failure> {
    let response = exchange.get(Some(&Part { range, version: None })).await?;
    // A part of an empty file cannot be sent.
    let response = match response.status() {
        StatusCode::RANGE_NOT_SATISFIABLE => exchange.get(None).await?,
        _ => response,
    };
    let is_all = response.status() == StatusCode::OK;
    let (response, extent) = checked(exchange, response, Content::Columns).await?;
    match extent.total {
        Some(total) if !is_all => {
            file.set_len(total).and_then(|()| file.seek(SeekFrom::Start(extent.start))).map_err(failed)?;
            save(exchange, response, file, total - extent.start).await?;
            Ok(Parts::Some(total))
        }
        _ => {
            file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed)?;
            let limit = exchange.bytes_max();
            match save(exchange, response, file, limit + 1).await? {
                length if length > limit => Err(Failure::Final(too_long(exchange, "longer than that"))),
                length => Ok(Parts::All(length)),
            }
        }
    }
}

/// Writes a body, or its beginning; returns how many bytes.
async fn save(
    exchange: &Exchange,
    response: Response<Incoming>,
    file: &mut File,
    longest: u64,
) -> Result<u64, Failure> {
    let (mut body, mut written) = (response.into_body(), 0);
    while written < longest {
        let Some(data) = exchange.next_piece(&mut body).await? else { break };
        let data = &data[..(longest - written).min(data.len() as u64) as usize];
        file.write_all(data).map_err(failed)?;
        written += data.len() as u64;
    }
    Ok(written)
}

fn temporary() -> Result<File, Failure> {
    tempfile::tempfile().map_err(failed)
}

fn failed(error: std::io::Error) -> Failure {
    let message = format!(
        "a temporary file failed: {error}; free space in '{}', or name another folder in TMPDIR",
        std::env::temp_dir().display()
    );
    Failure::Final(Cause::operation(message).with_source(error))
}

/// Tries a few times, on a thread of its own.
fn attempted<F>(exchange: &Exchange, run: impl Fn() -> F + Send + Sync) -> Result<FetchedFile, Cause>
where
    F: Future<Output = Result<FetchedFile, Failure>> + Send,
{
    let tries = async {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match run().await {
                Ok(fetched) => return Ok(fetched),
                Err(Failure::Final(cause)) => return Err(cause),
                Err(Failure::Lost { reason, .. }) if attempts == ATTEMPTS_MAX => {
                    return Err(Cause::operation(format!(
                        "{}: {reason}; gave up after {attempts} attempts; check the server and the network, then \
                         try again",
                        exchange.shown
                    )));
                }
                Err(Failure::Lost { .. }) => tokio::time::sleep(RETRY_PAUSE * attempts).await,
            }
        }
    };
    let too_slow = || {
        Cause::operation(format!(
            "{}: its columns were not found within {TIME_MAX:?}; declare them, or look for what holds up the server",
            exchange.shown
        ))
    };
    run_within(TIME_MAX, tries, too_slow)
}
