//! Snapshots: the state of a query's operators at the end of a cycle, as bytes.

use std::collections::BTreeMap;

use crate::error::Cause;
use crate::fields::{Fields, Malformed, PutFields, TakeFields};

/// Writes one partition's state as [fields](crate::fields), closed by their checksum.
///
/// ```
/// use tidemill_core::{SnapshotReader, SnapshotWriter};
/// let mut writer = SnapshotWriter::default();
/// writer.u8(1);
/// writer.u64(42);
/// let bytes = writer.finish();
/// let mut reader = SnapshotReader::new(&bytes).unwrap();
/// assert_eq!((reader.u8().unwrap(), reader.u64().unwrap()), (1, 42));
/// assert!(reader.u8().is_err());
/// ```
#[derive(Debug, Default)]
pub struct SnapshotWriter {
    bytes: Vec<u8>,
}

/// Reads what a [`SnapshotWriter`] wrote.
#[derive(Debug)]
pub struct SnapshotReader<'a> {
    fields: Fields<'a>,
}

macro_rules! integers {
    ($($name:ident $type:ty, $put:ident);*) => {
        impl SnapshotWriter {
            $(
                #[doc = concat!("Writes a `", stringify!($type), "`.")]
                pub fn $name(&mut self, value: $type) {
                    self.bytes.$put(value);
                }
            )*
        }
        impl SnapshotReader<'_> {
            $(
                #[doc = concat!("Reads a `", stringify!($type), "`.\n\n# Errors\nIf the bytes end before.")]
                pub fn $name(&mut self) -> Result<$type, Cause> {
                    self.fields.$name().map_err(ends_early)
                }
            )*
        }
    };
}

integers!(u8 u8, put_u8; u16 u16, put_u16; u32 u32, put_u32; u64 u64, put_u64; i64 i64, put_i64);

impl SnapshotWriter {
    /// Writes bytes, preceded by their number.
    ///
    /// ```
    /// let mut writer = tidemill_core::SnapshotWriter::default();
    /// writer.bytes(b"state");
    /// let bytes = writer.finish();
    /// let mut reader = tidemill_core::SnapshotReader::new(&bytes).unwrap();
    /// assert_eq!(reader.bytes().unwrap(), b"state");
    /// ```
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.put_bytes(bytes);
    }

    /// The bytes, followed by their checksum.
    pub fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.bytes);
        self.u32(checksum);
        self.bytes
    }
}

impl<'a> SnapshotReader<'a> {
    /// Opens bytes that a writer has finished.
    ///
    /// # Errors
    /// If the checksum does not match.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Cause> {
        let (body, checksum) = bytes.split_last_chunk().ok_or_else(|| ends_early(Malformed))?;
        if crc32fast::hash(body) == u32::from_le_bytes(*checksum) {
            Ok(SnapshotReader { fields: Fields(body) })
        } else {
            Err(damaged("its checksum does not match"))
        }
    }

    /// Checks that the next byte is this version.
    ///
    /// # Errors
    /// If it is a different version.
    pub fn version(&mut self, expected: u8) -> Result<(), Cause> {
        match self.u8()? {
            found if found == expected => Ok(()),
            found => Err(Cause::user(format!(
                "the snapshot's format has version {found}, this program reads version {expected}"
            ))),
        }
    }

    /// Reads a version that must be one of these.
    ///
    /// # Errors
    /// If it is another one, or the bytes end too early.
    pub fn version_of(&mut self, known: &[u8]) -> Result<u8, Cause> {
        let found = self.u8()?;
        if known.contains(&found) {
            Ok(found)
        } else {
            Err(Cause::user(format!(
                "the snapshot has format version {found}, but this program reads only {known:?}; \
                 use the program that wrote it"
            )))
        }
    }

    /// Reads bytes that [`SnapshotWriter::bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes end too early.
    pub fn bytes(&mut self) -> Result<&'a [u8], Cause> {
        self.fields.bytes().map_err(ends_early)
    }

    /// Reads a text that was written as bytes.
    ///
    /// # Errors
    /// If the bytes end too early, or are not UTF-8.
    pub fn text(&mut self) -> Result<String, Cause> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| damaged("a text is not UTF-8"))
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.fields.0.is_empty()
    }
}

fn ends_early(Malformed: Malformed) -> Cause {
    damaged("it ends early")
}

/// A snapshot that was not written like this.
pub(crate) fn damaged(what: &str) -> Cause {
    Cause::operation(format!("a snapshot is damaged: {what}"))
}

/// The state of all operators at the end of a cycle: operator name -> partition -> bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The cycle after which it was taken.
    pub cycle: u64,
    /// For each operator, for each partition, what it wrote.
    pub operators: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    /// For each operator, the largest event time with which its timers were compared. It is larger than the cut says if
    /// a source has returned from idleness since.
    pub watermarks: BTreeMap<String, i64>,
}

/// Where operators find their state at the start of a run.
pub trait StateSource: Send + Sync {
    /// The state of one partition, if there is one.
    fn partition(&self, operator: &str, partition: u32) -> Option<Vec<u8>>;

    /// The largest event time with which an operator's timers were compared.
    fn watermark(&self, operator: &str) -> Option<i64>;
}

impl StateSource for Snapshot {
    fn partition(&self, operator: &str, partition: u32) -> Option<Vec<u8>> {
        self.operators.get(operator)?.get(&partition).cloned()
    }

    fn watermark(&self, operator: &str) -> Option<i64> {
        self.watermarks.get(operator).copied()
    }
}
