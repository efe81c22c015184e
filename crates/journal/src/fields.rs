//! Little-endian fields, in which everything but rows is written.

/// The bytes end before what is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndsEarly;

/// Appends fields to bytes.
pub(crate) trait PutFields {
    /// Appends bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Writes bytes, preceded by their number.
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u64(bytes.len() as u64);
        self.put(bytes);
    }
}

impl PutFields for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Takes fields from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], EndsEarly> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(EndsEarly)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EndsEarly> {
        let (head, rest) = self.0.split_first_chunk().ok_or(EndsEarly)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, EndsEarly> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, EndsEarly> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, EndsEarly> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads what [`PutFields::put_bytes`] wrote.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], EndsEarly> {
        let length = usize::try_from(self.u64()?).map_err(|_| EndsEarly)?;
        self.take(length)
    }

    /// A text that was written as bytes.
    pub(crate) fn text(&mut self) -> Result<String, EndsEarly> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| EndsEarly)
    }
}
