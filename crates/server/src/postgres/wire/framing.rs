//! Where messages of a session begin and end.

use super::requests::request;
use super::{Malformed, Request, RequestError};

/// The kind of a message, and its length.
const HEADER_BYTES: usize = 5;
/// A message has room for so many bytes at once if it announces them. Growing through all sizes would take a page of memory for each.
const ANNOUNCED_BYTES_MAX: usize = 8 * 1024;

/// A message as it came. It is kept like this until it is answered: what it says takes memory in parts of many sizes.
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

/// Takes bytes apart into messages, in pieces as they come.
pub(crate) struct Framing {
    bytes_max: usize,
    header: [u8; HEADER_BYTES],
    /// How much of the header has come.
    header_bytes: usize,
    /// The message behind a whole header.
    message: Option<Message>,
    /// How many bytes the message lacks.
    missing: usize,
}

impl Framing {
    /// For messages of at most this many bytes.
    pub fn new(bytes_max: usize) -> Framing {
        Framing { bytes_max, header: [0; HEADER_BYTES], header_bytes: 0, message: None, missing: 0 }
    }

    /// Whether no part of a message has come whose rest is missing.
    pub fn is_between(&self) -> bool {
        self.header_bytes == 0
    }

    /// Takes the next message from bytes that have come; `None` when all are taken.
    ///
    /// # Errors
    /// If a message is too long, or shorter than its own length.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Message>, RequestError> {
        if self.message.is_none() {
            let taken = take(bytes, HEADER_BYTES - self.header_bytes);
            self.header[self.header_bytes..][..taken.len()].copy_from_slice(taken);
            self.header_bytes += taken.len();
            if self.header_bytes < HEADER_BYTES {
                return Ok(None);
            }
            self.begin()?;
        }
        if let Some(message) = &mut self.message {
            let taken = take(bytes, self.missing);
            message.body.extend_from_slice(taken);
            self.missing -= taken.len();
        }
        if self.missing > 0 {
            return Ok(None);
        }
        self.header_bytes = 0;
        Ok(self.message.take())
    }

    /// The header is whole.
    fn begin(&mut self) -> Result<(), RequestError> {
        let [kind, length @ ..] = self.header;
        // It counts itself.
        let bytes = u32::from_be_bytes(length) as usize;
        let bytes = bytes
            .checked_sub(length.len())
            .ok_or(Malformed("a message claims to be shorter than its own length field"))?;
        if bytes > self.bytes_max {
            return Err(RequestError::TooLong { bytes, bytes_max: self.bytes_max });
        }
        self.message = Some(Message { kind, body: Vec::with_capacity(room(bytes)) });
        self.missing = bytes;
        Ok(())
    }
}

/// The first bytes: this many, or all there are.
fn take<'a>(bytes: &mut &'a [u8], count_max: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count_max.min(bytes.len()));
    *bytes = rest;
    taken
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

#[cfg(test)]
mod tests {
    use super::*;

    type Taken = (Vec<(u8, Vec<u8>)>, Result<bool, RequestError>);

    /// The messages of bytes that come in pieces of this size, and whether the last one is whole.
    fn messages(bytes: &[u8], piece: usize) -> Taken {
        let (mut framing, mut messages) = (Framing::new(100), Vec::new());
        for mut bytes in bytes.chunks(piece) {
            loop {
                match framing.next(&mut bytes) {
                    Ok(Some(message)) => messages.push((message.kind, message.body)),
                    Ok(None) => break,
                    Err(error) => return (messages, Err(error)),
                }
            }
            assert!(bytes.is_empty());
        }
        (messages, Ok(framing.is_between()))
    }

    #[test]
    fn messages_are_the_same_in_pieces_of_any_size() {
        let long = [b"d\0\0\0\x68", &[7; 100][..]].concat();
        let bytes = [b"Q\0\0\0\x0dSELECT 1\0", &b"S\0\0\0\x04"[..], &long, b"X\0\0\0\x04"].concat();
        let expected = [(b'Q', b"SELECT 1\0".to_vec()), (b'S', vec![]), (b'd', vec![7; 100]), (b'X', vec![])];
        for piece in 1..=bytes.len() {
            let (messages, end) = messages(&bytes, piece);
            assert_eq!(messages, expected, "in pieces of {piece}");
            assert!(end.unwrap());
        }
        for count in 1..=14 {
            assert_eq!(messages(&bytes[..count], 3).1.unwrap(), count == 14, "{count} bytes");
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_errors() {
        assert!(matches!(messages(b"Q\xff\xff\xff\xff", 2).1, Err(RequestError::TooLong { .. })));
        assert!(matches!(messages(b"d\0\0\0\x69", 9).1, Err(RequestError::TooLong { .. })));
        let (before, end) = messages(b"S\0\0\0\x04Q\0\0\0\x03", 9);
        assert_eq!(before.len(), 1);
        assert!(matches!(end, Err(RequestError::Malformed(_))));
    }

    #[test]
    fn room_is_made_for_what_comes_and_not_for_what_is_announced() {
        let mut framing = Framing::new(1 << 30);
        assert!(framing.next(&mut &b"d\x3f\xff\xff\xff"[..]).unwrap().is_none());
        assert_eq!(framing.message.unwrap().body.capacity(), ANNOUNCED_BYTES_MAX);
    }
}
