//! What readers ask, and what is answered: frames, each a length and its bytes.

use std::io::{self, Read, Write};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};
use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields, take_all};
use tidemill_core::{Cause, Fault};

use crate::area::Area;
use crate::selection::{Selection, Work};

const PIN: u8 = 1;
const SELECT: u8 = 2;
const NEAREST: u8 = 3;
const RELEASE: u8 = 4;
const FOLLOW: u8 = 5;
const CHANGES: u8 = 6;

const FAILED: u8 = 0;
const OK: u8 = 1;

/// The versions that a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The newest that all views have.
    Newest,
    /// Those after this cycle.
    Cycle(u64),
    /// The newest whose rows are all at or before this time, in units of the view's column.
    Time(i64),
}

/// What a reader asks.
pub(super) enum Request {
    /// Versions of these views, kept until others are asked for.
    Pin { views: Vec<String>, moment: Moment },
    /// Rows of the version with this number.
    Rows { version: u32, question: Question },
    /// The versions are no longer needed. Nothing is answered.
    Release,
    /// From here on, changes are those of this view, from its rows or from a place on. Nothing is answered.
    Follow { view: String, after: Option<FollowPosition> },
    /// What has changed since the last time.
    Changes,
}

/// Where a follower is: it has all changes up to a cycle of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowPosition {
    /// Which history the cycles are of: in another one, the same numbers mean other rows.
    pub history: u64,
    /// The last cycle whose changes the follower has completely.
    pub cycle: u64,
}

/// What comes in front of the rows of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangesHead {
    /// With the rows, everything up to here has been given; `None`: the rows are part of a cycle.
    pub place: Option<FollowPosition>,
    pub is_over: bool,
    pub has_rows: bool,
}

/// Which rows of a version a reader wants.
pub(super) enum Question {
    Select(Selection),
    Nearest { to: (f64, f64), rows_max: u64, selection: Selection },
}

/// A version that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pinned {
    pub cycle: Option<u64>,
}

/// Writes a frame.
///
/// # Errors
/// If it is too long for its length, or cannot be written.
pub fn send_frame(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut frame = Vec::with_capacity(4 + bytes.len());
    frame.put_u32(length);
    frame.put(bytes);
    stream.write_all(&frame)
}

/// Reads a frame of at most this many bytes.
///
/// ```
/// use tidemill_store::remote::{receive_frame, send_frame};
/// let mut sent = Vec::new();
/// send_frame(&mut sent, b"rows")?;
/// assert_eq!(receive_frame(&mut sent.as_slice(), 4)?, b"rows");
/// assert!(receive_frame(&mut sent.as_slice(), 3).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If it is longer, ends early, or cannot be read.
pub fn receive_frame(stream: &mut impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > bytes_max {
        let message = format!("a message of {length} bytes, and at most {bytes_max} are expected");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl Request {
    pub fn encode(&self) -> Result<Vec<u8>, Cause> {
        let mut bytes = Vec::new();
        match self {
            Request::Pin { views, moment } => {
                bytes.put_u8(PIN);
                let (kind, value) = match moment {
                    Moment::Newest => (0, 0),
                    Moment::Cycle(cycle) => (1, *cycle),
                    Moment::Time(time) => (2, time.cast_unsigned()),
                };
                bytes.put_u8(kind);
                bytes.put_u64(value);
                bytes.put_u64(views.len() as u64);
                views.iter().for_each(|view| bytes.put_bytes(view.as_bytes()));
            }
            Request::Rows { version, question: Question::Select(selection) } => {
                bytes.put_u8(SELECT);
                bytes.put_u32(*version);
                put_selection(&mut bytes, selection)?;
            }
            Request::Rows { version, question: Question::Nearest { to, rows_max, selection } } => {
                bytes.put_u8(NEAREST);
                bytes.put_u32(*version);
                put_numbers(&mut bytes, [to.0, to.1]);
                bytes.put_u64(*rows_max);
                put_selection(&mut bytes, selection)?;
            }
            Request::Release => bytes.put_u8(RELEASE),
            Request::Follow { view, after } => {
                bytes.put_u8(FOLLOW);
                bytes.put_bytes(view.as_bytes());
                put_optional(&mut bytes, *after, put_place);
            }
            Request::Changes => bytes.put_u8(CHANGES),
        }
        Ok(bytes)
    }

    pub fn decode(bytes: &[u8]) -> Result<Request, Malformed> {
        let fields = &mut Fields(bytes);
        let request = match fields.u8()? {
            PIN => {
                let (kind, value, count) = (fields.u8()?, fields.u64()?, fields.u64()?);
                let moment = match kind {
                    0 => Moment::Newest,
                    1 => Moment::Cycle(value),
                    2 => Moment::Time(value.cast_signed()),
                    _ => return Err(Malformed),
                };
                Request::Pin { views: take_all(fields, count, Fields::text)?, moment }
            }
            SELECT => {
                let version = fields.u32()?;
                Request::Rows { version, question: Question::Select(take_selection(fields)?) }
            }
            NEAREST => {
                let (version, [x, y]) = (fields.u32()?, take_numbers(fields)?);
                let (rows_max, selection) = (fields.u64()?, take_selection(fields)?);
                Request::Rows { version, question: Question::Nearest { to: (x, y), rows_max, selection } }
            }
            RELEASE => Request::Release,
            FOLLOW => Request::Follow { view: fields.text()?, after: take_optional(fields, take_place)? },
            CHANGES => Request::Changes,
            _ => return Err(Malformed),
        };
        if fields.0.is_empty() { Ok(request) } else { Err(Malformed) }
    }
}

fn put_place(bytes: &mut Vec<u8>, place: FollowPosition) {
    bytes.put_u64(place.history);
    bytes.put_u64(place.cycle);
}

fn take_place(fields: &mut Fields<'_>) -> Result<FollowPosition, Malformed> {
    Ok(FollowPosition { history: fields.u64()?, cycle: fields.u64()? })
}

fn put_numbers<const N: usize>(bytes: &mut Vec<u8>, numbers: [f64; N]) {
    numbers.iter().for_each(|number| bytes.put_u64(number.to_bits()));
}

fn take_numbers<const N: usize>(fields: &mut Fields<'_>) -> Result<[f64; N], Malformed> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = f64::from_bits(fields.u64()?);
    }
    Ok(numbers)
}

fn put_optional<T>(bytes: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    bytes.put_u8(value.is_some().into());
    if let Some(value) = value {
        put(bytes, value);
    }
}

fn take_optional<T>(
    fields: &mut Fields<'_>,
    take: impl FnOnce(&mut Fields<'_>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match fields.u8()? {
        0 => Ok(None),
        1 => take(fields).map(Some),
        _ => Err(Malformed),
    }
}

fn put_selection(bytes: &mut Vec<u8>, selection: &Selection) -> Result<(), Cause> {
    let Selection { key, time, area, fragment, columns } = selection;
    let key = key.as_deref().map(encoded_key).transpose()?;
    put_optional(bytes, key, |bytes, key| bytes.put_bytes(&key));
    put_optional(bytes, *time, |bytes, (from, to)| {
        bytes.put_i64(from);
        bytes.put_i64(to);
    });
    put_optional(bytes, *area, |bytes, area| put_numbers(bytes, [area.x.0, area.x.1, area.y.0, area.y.1]));
    put_optional(bytes, *fragment, |bytes, fragment| bytes.put_u64(fragment as u64));
    put_optional(bytes, columns.as_ref(), |bytes, columns| {
        bytes.put_u64(columns.len() as u64);
        columns.iter().for_each(|column| bytes.put_u64(*column as u64));
    });
    Ok(())
}

fn take_selection(fields: &mut Fields<'_>) -> Result<Selection, Malformed> {
    let index = |fields: &mut Fields<'_>| usize::try_from(fields.u64()?).map_err(|_| Malformed);
    Ok(Selection {
        key: take_optional(fields, |fields| decoded_key(fields.bytes()?))?,
        time: take_optional(fields, |fields| Ok((fields.i64()?, fields.i64()?)))?,
        area: take_optional(fields, |fields| {
            let [x_min, x_max, y_min, y_max] = take_numbers(fields)?;
            Ok(Area { x: (x_min, x_max), y: (y_min, y_max) })
        })?,
        fragment: take_optional(fields, index)?,
        columns: take_optional(fields, |fields| {
            let count = fields.u64()?;
            take_all(fields, count, index)
        })?,
    })
}

/// The values of a key as one row.
fn encoded_key(key: &[ArrayRef]) -> Result<Vec<u8>, Cause> {
    let failed = |error: arrow_schema::ArrowError| {
        Cause::bug(format!("a key cannot be sent: {error}")).with_source(error)
    };
    let field =
        |(index, column): (usize, &ArrayRef)| Field::new(index.to_string(), column.data_type().clone(), true);
    let schema = Schema::new(key.iter().enumerate().map(field).collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(schema.into(), key.to_vec(), &options).map_err(failed)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &row.schema()).map_err(failed)?;
    writer.write(&row).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

fn decoded_key(bytes: &[u8]) -> Result<Vec<ArrayRef>, Malformed> {
    let mut rows = StreamReader::try_new(bytes, None).map_err(|_| Malformed)?;
    let row = rows.next().ok_or(Malformed)?.map_err(|_| Malformed)?;
    if row.num_rows() == 1 { Ok(row.columns().to_vec()) } else { Err(Malformed) }
}

/// The answer to [`Request::Pin`]: a version of each view, or why there is none.
pub(super) fn encode_pinned(pinned: &[Result<Pinned, Cause>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(pinned.len() as u64);
    for version in pinned {
        put_result(&mut bytes, version, |bytes, pinned| {
            put_optional(bytes, pinned.cycle, |bytes, cycle| bytes.put_u64(cycle));
        });
    }
    bytes
}

pub(super) fn decode_pinned(bytes: &[u8]) -> Result<Vec<Result<Pinned, Cause>>, Malformed> {
    let mut fields = Fields(bytes);
    let count = fields.u64()?;
    take_all(&mut fields, count, |fields| {
        take_result(fields, |fields| Ok(Pinned { cycle: take_optional(fields, |fields| fields.u64())? }))
    })
}

/// The answer to [`Request::Rows`], in front of the rows: what finding them took, and whether there are some.
pub(super) fn encode_found(found: &Result<(Work, bool), Cause>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_result(&mut bytes, found, |bytes, (work, has_rows)| {
        let Work { fragments, fragments_asked, chunks, chunks_read, rows, rows_examined, rows_found, by_key } =
            *work;
        let counts = [fragments, fragments_asked, chunks, chunks_read].map(|count| count as u64);
        counts.into_iter().chain([rows, rows_examined, rows_found]).for_each(|count| bytes.put_u64(count));
        bytes.put_u8(by_key.into());
        bytes.put_u8((*has_rows).into());
    });
    bytes
}

pub(super) fn decode_found(bytes: &[u8]) -> Result<Result<(Work, bool), Cause>, Malformed> {
    take_result(&mut Fields(bytes), |fields| {
        let count = |fields: &mut Fields<'_>| usize::try_from(fields.u64()?).map_err(|_| Malformed);
        let work = Work {
            fragments: count(fields)?,
            fragments_asked: count(fields)?,
            chunks: count(fields)?,
            chunks_read: count(fields)?,
            rows: fields.u64()?,
            rows_examined: fields.u64()?,
            rows_found: fields.u64()?,
            by_key: fields.u8()? == 1,
        };
        Ok((work, fields.u8()? == 1))
    })
}

/// The answer to [`Request::Changes`], in front of the rows.
pub(super) fn encode_changes(head: &Result<ChangesHead, Cause>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_result(&mut bytes, head, |bytes, head| {
        put_optional(bytes, head.place, put_place);
        bytes.put_u8(head.is_over.into());
        bytes.put_u8(head.has_rows.into());
    });
    bytes
}

pub(super) fn decode_changes(bytes: &[u8]) -> Result<Result<ChangesHead, Cause>, Malformed> {
    take_result(&mut Fields(bytes), |fields| {
        let place = take_optional(fields, take_place)?;
        Ok(ChangesHead { place, is_over: fields.u8()? == 1, has_rows: fields.u8()? == 1 })
    })
}

fn put_result<T>(bytes: &mut Vec<u8>, result: &Result<T, Cause>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    match result {
        Ok(value) => {
            bytes.put_u8(OK);
            put(bytes, value);
        }
        Err(cause) => {
            bytes.put_u8(FAILED);
            bytes.put_u8(match cause.fault {
                Fault::User => 0,
                Fault::Operation => 1,
                Fault::Resource => 2,
                Fault::Bug => 3,
            });
            bytes.put_bytes(cause.message.as_bytes());
        }
    }
}

fn take_result<T>(
    fields: &mut Fields<'_>,
    take: impl FnOnce(&mut Fields<'_>) -> Result<T, Malformed>,
) -> Result<Result<T, Cause>, Malformed> {
    match fields.u8()? {
        OK => take(fields).map(Ok),
        FAILED => {
            let fault = match fields.u8()? {
                0 => Fault::User,
                1 => Fault::Operation,
                2 => Fault::Resource,
                3 => Fault::Bug,
                _ => return Err(Malformed),
            };
            Ok(Err(Cause::new(fault, fields.text()?)))
        }
        _ => Err(Malformed),
    }
}
