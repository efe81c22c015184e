//! The first message of a connection.

use std::io::{self, Read};

use super::{Body, Malformed, RequestError};

/// The longest first message.
const BYTES_MAX: usize = 10_000;

const CANCEL: i32 = 80_877_102;
const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;

/// What a client wants of a new connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Startup {
    /// Encryption. A client whose wish is refused continues without it, or leaves.
    Encryption { is_tls: bool },
    /// That what another connection waits for ends.
    Cancel { process: i32, secret: i32 },
    /// A session, with this minor version of the protocol.
    Session { minor: u16, parameters: Vec<(String, String)> },
}

/// Reads the first message; `None` if the client has closed the connection.
pub(crate) fn read_startup(stream: &mut impl Read) -> Result<Option<Startup>, RequestError> {
    let mut length = [0; 4];
    let first = stream.read(&mut length)?;
    if first == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[first..])?;
    let bytes = u32::from_be_bytes(length) as usize;
    if !(8..=BYTES_MAX).contains(&bytes) {
        return Err(Malformed("the first message does not belong to PostgreSQL's protocol").into());
    }
    let mut body = vec![0; bytes - 4];
    stream.read_exact(&mut body)?;
    Ok(Some(startup(&body)?))
}

fn startup(body: &[u8]) -> Result<Startup, RequestError> {
    let mut body = Body(body);
    let code = body.i32()?;
    Ok(match code {
        TLS | GSS => Startup::Encryption { is_tls: code == TLS },
        CANCEL => {
            let (process, secret) = (body.i32()?, body.i32()?);
            body.end()?;
            Startup::Cancel { process, secret }
        }
        code if code >> 16 == 3 => {
            let mut parameters = Vec::new();
            loop {
                let name = body.text()?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, body.text()?));
            }
            body.end()?;
            Startup::Session { minor: (code & 0xffff) as u16, parameters }
        }
        _ => {
            let message = "only version 3 of PostgreSQL's protocol is supported";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message).into());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_says_what_is_wanted() {
        let session = b"\0\0\0\x11\0\x03\0\0user\0me\0\0";
        let parameters = vec![("user".to_owned(), "me".to_owned())];
        let read = read_startup(&mut &session[..]).unwrap();
        assert_eq!(read, Some(Startup::Session { minor: 0, parameters }));
        let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07\0\0\0\x09";
        assert_eq!(read_startup(&mut &cancel[..]).unwrap(), Some(Startup::Cancel { process: 7, secret: 9 }));
        let tls = b"\0\0\0\x08\x04\xd2\x16\x2f";
        assert_eq!(read_startup(&mut &tls[..]).unwrap(), Some(Startup::Encryption { is_tls: true }));
        for wrong in
            [&b"GET / HTTP/1.1\r\n"[..], b"\0\0\0\x04", b"\0\0\0\x09\0\x02\0\0x", b"\0\0\0\x0c\0\x03\0\0user"]
        {
            assert!(read_startup(&mut &*wrong).is_err(), "{wrong:?}");
        }
    }
}
