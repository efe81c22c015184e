//! What a client sends once its session has begun.

use std::io::{self, Read};

use super::{Body, Malformed};
use crate::report::{PROGRAM_LIMIT, PROTOCOL_VIOLATION, Report};

/// A message has room for so many bytes at once if it announces them. Growing through all sizes would take a page of memory for each.
const ANNOUNCED_BYTES_MAX: usize = 8 * 1024;

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Statements as text, to be executed one after the other.
    Query(String),
    /// A statement to be prepared under a name, with the types of its parameters; 0: not known.
    Parse {
        name: String,
        text: String,
        types: Vec<u32>,
    },
    /// Values for a prepared statement, which make it a portal.
    Bind(Bind),
    Describe(Target),
    /// Runs a portal; 0 rows: all of them.
    Execute {
        portal: String,
        rows_max: usize,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    /// Lines of a copy. If none is in progress, they are left over from one that failed.
    CopyData(Vec<u8>),
    CopyDone,
    /// The client breaks off the copy, for this reason.
    CopyFail(String),
    /// Something that this server does not understand.
    Unknown(u8),
}

/// Values for a prepared statement. Formats: none, one for all, or one for each; 0 is text, 1 is binary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub portal: String,
    pub statement: String,
    pub formats: Vec<u16>,
    pub values: Vec<Option<Vec<u8>>>,
    pub result_formats: Vec<u16>,
}

/// What a client names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement(String),
    Portal(String),
}

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("a message has {bytes} bytes; at most {bytes_max} are read")]
    TooLong { bytes: usize, bytes_max: usize },
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the connection broke: {0}")]
    Connection(#[from] io::Error),
}

impl From<&RequestError> for Report {
    fn from(error: &RequestError) -> Report {
        let code = match error {
            RequestError::TooLong { .. } => PROGRAM_LIMIT,
            RequestError::Malformed(_) | RequestError::Connection(_) => PROTOCOL_VIOLATION,
        };
        Report::fatal(code, error.to_string())
    }
}

/// A message as it came. Threads that only read keep it like this: what it says would take a page of memory for each size of its parts.
pub(crate) struct Message {
    kind: u8,
    body: Vec<u8>,
}

impl Message {
    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.body.capacity() + size_of::<Message>()
    }

    /// What it says.
    ///
    /// # Errors
    /// If it is not a message of the protocol.
    pub fn read(&self) -> Result<Request, RequestError> {
        Ok(request(self.kind, &self.body)?)
    }
}

/// Room for a message of this many bytes: there are few different sizes.
fn room(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=64 => 64,
        65..=512 => 512,
        // Beyond that, it grows with what comes, not with what is announced.
        _ => bytes.min(ANNOUNCED_BYTES_MAX).next_power_of_two(),
    }
}

/// Reads the next message; `None` when the client has closed the connection.
pub(crate) fn read_message(
    stream: &mut impl Read,
    bytes_max: usize,
) -> Result<Option<Message>, RequestError> {
    let mut kind = [0];
    if stream.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    // It counts itself.
    let bytes = u32::from_be_bytes(length) as usize;
    let bytes =
        bytes.checked_sub(4).ok_or(Malformed("a message claims to be shorter than its own length field"))?;
    if bytes > bytes_max {
        return Err(RequestError::TooLong { bytes, bytes_max });
    }
    let mut body = Vec::with_capacity(room(bytes));
    stream.take(bytes as u64).read_to_end(&mut body)?;
    if body.len() < bytes {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(Message { kind: kind[0], body }))
}

fn request(kind: u8, body: &[u8]) -> Result<Request, Malformed> {
    let mut body = Body(body);
    let request = match kind {
        b'Q' => Request::Query(body.text()?),
        b'P' => {
            let (name, text) = (body.text()?, body.text()?);
            let types = body.list(4, |body| Ok(body.i32()? as u32))?;
            Request::Parse { name, text, types }
        }
        b'B' => Request::Bind(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.list(2, Body::u16)?,
            values: body.list(4, value)?,
            result_formats: body.list(2, Body::u16)?,
        }),
        b'D' => Request::Describe(target(&mut body)?),
        b'E' => {
            let (portal, rows_max) = (body.text()?, body.i32()?);
            Request::Execute { portal, rows_max: usize::try_from(rows_max).unwrap_or(0) }
        }
        b'C' => Request::Close(target(&mut body)?),
        b'H' => Request::Flush,
        b'S' => Request::Sync,
        b'X' => Request::Terminate,
        b'd' => return Ok(Request::CopyData(body.0.to_vec())),
        b'c' => Request::CopyDone,
        b'f' => Request::CopyFail(body.text()?),
        other => return Ok(Request::Unknown(other)),
    };
    body.end()?;
    Ok(request)
}

fn value(body: &mut Body<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    match body.i32()? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| Malformed("a value has a negative length"))?;
            Ok(Some(body.bytes(length)?.to_vec()))
        }
    }
}

fn target(body: &mut Body<'_>) -> Result<Target, Malformed> {
    match body.byte()? {
        b'S' => Ok(Target::Statement(body.text()?)),
        b'P' => Ok(Target::Portal(body.text()?)),
        _ => Err(Malformed("a message names neither a statement nor a portal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Request>, RequestError> {
        read_message(&mut &*bytes, 100)?.map(|message| message.read()).transpose()
    }

    #[test]
    fn a_request_is_read_to_its_end() {
        assert_eq!(read(b"Q\0\0\0\x0dSELECT 1\0").unwrap(), Some(Request::Query("SELECT 1".into())));
        let bound = Bind {
            portal: String::new(),
            statement: "s".into(),
            formats: vec![1],
            values: vec![None, Some(b"ab".to_vec())],
            result_formats: vec![],
        };
        let bytes = b"B\0\0\0\x19\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x02ab\0\0";
        assert_eq!(read(bytes).unwrap(), Some(Request::Bind(bound)));
        assert!(read(b"").unwrap().is_none());
    }

    #[test]
    fn what_is_announced_and_not_sent_is_an_error() {
        for bytes in [
            &b"Q"[..],
            b"Q\0\0\0\x03",
            b"Q\0\0\0\x0dSELECT",
            b"Q\0\0\0\x08abcd",
            b"Q\0\0\0\x07a\0b",
            b"Q\0\0\0\x06\xff\0",
            b"B\0\0\0\x0a\0\0\xff\xff\0\0",
            b"D\0\0\0\x06x\0",
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
        assert!(matches!(read(b"Q\xff\xff\xff\xff"), Err(RequestError::TooLong { .. })));
    }
}
