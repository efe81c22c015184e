//! What a client sends while it logs in.

use std::io::Read;

use super::{Body, Malformed, RequestError};

/// The longest message of a login.
const BYTES_MAX: usize = 10_000;

/// Reads a message of a login; `None` if the client has closed the connection, as one does that first has to ask its user.
pub(crate) fn read_password(stream: &mut impl Read) -> Result<Option<Vec<u8>>, RequestError> {
    let mut kind = [0];
    if stream.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let bytes = (u32::from_be_bytes(length) as usize).checked_sub(4).filter(|bytes| *bytes <= BYTES_MAX);
    let bytes = bytes.filter(|_| kind[0] == b'p');
    let bytes = bytes.ok_or(Malformed("the client was asked for its password and sent something else"))?;
    let mut body = vec![0; bytes];
    stream.read_exact(&mut body)?;
    Ok(Some(body))
}

/// The mechanism that a client has chosen, and the first message of its exchange.
pub(crate) fn chosen_mechanism(body: &[u8]) -> Result<(String, Vec<u8>), Malformed> {
    let mut body = Body(body);
    let mechanism = body.text()?;
    let length =
        usize::try_from(body.i32()?).map_err(|_| Malformed("the first message of the login is missing"))?;
    let message = body.bytes(length)?.to_vec();
    body.end()?;
    Ok((mechanism, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_login_is_read_while_a_client_logs_in() {
        let whole = b"p\0\0\0\x18SCRAM\0\0\0\0\x0an,,n=,r=ab";
        let body = read_password(&mut &whole[..]).unwrap().unwrap();
        assert_eq!(chosen_mechanism(&body).unwrap(), ("SCRAM".to_owned(), b"n,,n=,r=ab".to_vec()));
        assert!(read_password(&mut &b""[..]).unwrap().is_none());
        for wrong in [&b"p"[..], b"p\0\0\0\x03", b"p\0\0\x80\0", b"Q\0\0\0\x05\0", b"p\0\0\0\x06a"] {
            assert!(read_password(&mut &*wrong).is_err(), "{wrong:?}");
        }
        for wrong in [&b"SCRAM"[..], b"SCRAM\0\xff\xff\xff\xff", b"SCRAM\0\0\0\0\x02a", b"S\0\0\0\0\x01ab"] {
            assert!(chosen_mechanism(wrong).is_err(), "{wrong:?}");
        }
    }
}
