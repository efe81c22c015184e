//! What a client sends once its session has begun.

use std::io;

use super::{Body, Malformed};
use crate::report::{PROGRAM_LIMIT, PROTOCOL_VIOLATION, Report};

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

/// What a message of this kind says.
///
/// # Errors
/// If it is not a message of the protocol.
pub(super) fn request(kind: u8, body: &[u8]) -> Result<Request, Malformed> {
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

    #[test]
    fn a_request_is_read_to_its_end() {
        assert_eq!(request(b'Q', b"SELECT 1\0").unwrap(), Request::Query("SELECT 1".into()));
        let bound = Bind {
            portal: String::new(),
            statement: "s".into(),
            formats: vec![1],
            values: vec![None, Some(b"ab".to_vec())],
            result_formats: vec![],
        };
        let body = b"\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x02ab\0\0";
        assert_eq!(request(b'B', body).unwrap(), Request::Bind(bound));
        assert_eq!(request(b'!', b"anything").unwrap(), Request::Unknown(b'!'));
    }

    #[test]
    fn what_is_announced_and_not_sent_is_an_error() {
        let wrong: [(u8, &[u8]); 6] = [
            (b'Q', b"abcd"),
            (b'Q', b"a\0b"),
            (b'Q', b"\xff\0"),
            (b'Q', b""),
            (b'B', b"\0\0\xff\xff\0\0"),
            (b'D', b"x\0"),
        ];
        for (kind, body) in wrong {
            assert!(request(kind, body).is_err(), "{body:?}");
        }
    }
}
