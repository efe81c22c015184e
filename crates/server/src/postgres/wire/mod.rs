//! Messages of the protocol of PostgreSQL, version 3: what clients send, and what they are sent.

mod framing;
mod password;
mod requests;
mod startup;
mod writer;

pub(crate) use self::framing::{Framing, Message};
pub(crate) use self::password::{chosen_mechanism, read_password};
pub(crate) use self::requests::{Bind, Request, RequestError, Target};
pub(crate) use self::startup::{Startup, read_startup};
pub(crate) use self::writer::{TransactionStatus, Writer};

/// Why bytes are not a message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct Malformed(pub &'static str);

/// The bytes of a message that are not read yet.
pub(crate) struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed("a message is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed("a message is too short"))
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A text that ends with a zero byte.
    pub fn text(&mut self) -> Result<String, Malformed> {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .ok_or(Malformed("a string in a message is not terminated"))?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        String::from_utf8(text.to_vec()).map_err(|_| Malformed("a string in a message is not UTF-8"))
    }

    /// A list with its length, whose elements have at least `bytes` bytes each.
    pub fn list<T>(
        &mut self,
        bytes: usize,
        element: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::from(self.u16()?);
        if count * bytes > self.0.len() {
            return Err(Malformed("a list in a message is longer than the message"));
        }
        (0..count).map(|_| element(self)).collect()
    }

    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("a message has bytes after its last field")) }
    }
}
