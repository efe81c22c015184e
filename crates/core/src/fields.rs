//! Little-endian fields: how numbers, byte strings and texts are written, in everything that is stored and in the
//! messages between processes.
//!
//! | field | bytes |
//! |---|---|
//! | a number | its own 1, 2, 4 or 8 bytes, the lowest first |
//! | bytes, a text in UTF-8 | their length as a `u64`, then the bytes |
//!
//! Nothing that is read makes the reader reserve memory: a length counts only if that many bytes exist.

/// The bytes are not the fields that were expected: they end early, or hold a value that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends fields to bytes.
///
/// ```
/// use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};
/// let mut bytes = Vec::new();
/// bytes.put_u32(7);
/// bytes.put_bytes(b"state");
/// let mut fields = Fields(&bytes);
/// assert_eq!((fields.u32(), fields.text()), (Ok(7), Ok("state".to_owned())));
/// assert_eq!(fields.u8(), Err(Malformed), "nothing is left");
/// ```
pub trait PutFields {
    /// Appends bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// Appends bytes, preceded by their number.
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u64(bytes.len() as u64);
        self.put(bytes);
    }

    /// Appends a `u8`.
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends a `u16`.
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a `u32`.
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a `u64`.
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends an `i64`.
    fn put_i64(&mut self, value: i64) {
        self.put(&value.to_le_bytes());
    }
}

impl PutFields for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Takes numbers from the front of bytes, wherever they come from.
pub trait TakeFields {
    /// Why a field cannot be taken.
    type Error;

    /// Takes this many bytes.
    ///
    /// # Errors
    /// If there are fewer.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Self::Error>;

    /// Takes a `u8`.
    ///
    /// # Errors
    /// If the bytes end before.
    fn u8(&mut self) -> Result<u8, Self::Error> {
        self.array().map(u8::from_le_bytes)
    }

    /// Takes a `u16`.
    ///
    /// # Errors
    /// If the bytes end before.
    fn u16(&mut self) -> Result<u16, Self::Error> {
        self.array().map(u16::from_le_bytes)
    }

    /// Takes a `u32`.
    ///
    /// # Errors
    /// If the bytes end before.
    fn u32(&mut self) -> Result<u32, Self::Error> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a `u64`.
    ///
    /// # Errors
    /// If the bytes end before.
    fn u64(&mut self) -> Result<u64, Self::Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes an `i64`.
    ///
    /// # Errors
    /// If the bytes end before.
    fn i64(&mut self) -> Result<i64, Self::Error> {
        self.array().map(i64::from_le_bytes)
    }
}

/// Bytes in memory, from the front of which fields are taken.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl TakeFields for Fields<'_> {
    type Error = Malformed;

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*head)
    }
}

impl<'a> Fields<'a> {
    /// Takes this many bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    /// Takes what [`PutFields::put_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes end before.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u64()?).map_err(|_| Malformed)?;
        self.take(length)
    }

    /// Takes a text that was written as bytes.
    ///
    /// # Errors
    /// If the bytes end before, or are not UTF-8.
    pub fn text(&mut self) -> Result<String, Malformed> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| Malformed)
    }
}

/// Takes a number of values, which the bytes before them announce.
///
/// # Errors
/// If one of them cannot be taken. A count that is too large ends with the bytes, and reserves nothing before.
pub fn take_all<R, T, E>(
    reader: &mut R,
    count: u64,
    mut take: impl FnMut(&mut R) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    // Collected one by one: `Result` announces no length to the vector.
    (0..count).map(|_| take(reader)).collect()
}
