//! How far a file was read, and how it is recognised: what a durable query stores for each file with its rows.
//!
//! A file is the same one if it has the same path or inode, and begins with the bytes that were read. Inodes are
//! reused, so they alone prove nothing.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;
use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};

const VERSION: u8 = 1;
/// How much is examined at the beginning of a file.
pub(super) const HEAD_BYTES: usize = 4096;
/// How many bytes are examined before the byte up to which it was read.
pub(super) const TAIL_BYTES: usize = 1024;

/// Device and inode; `None` if the system does not have them.
pub(super) type FileIdentity = Option<(u64, u64)>;

#[cfg(unix)]
pub(super) fn identity(metadata: &Metadata) -> FileIdentity {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
pub(super) fn identity(_metadata: &Metadata) -> FileIdentity {
    None
}

/// A piece of a file by which it is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    length: u32,
    checksum: u64,
}

impl Fingerprint {
    pub(super) fn of(bytes: &[u8]) -> Fingerprint {
        // FNV-1a: it need not withstand an attack.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Fingerprint { length: bytes.len() as u32, checksum: bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix) }
    }
}

impl Default for Fingerprint {
    /// Makes that of no bytes, which every file has.
    fn default() -> Fingerprint {
        Fingerprint::of(&[])
    }
}

/// The first bytes of a file that is `extent` long, or was read that far, and the bytes before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprints {
    pub extent: u64,
    pub head: Fingerprint,
    pub tail: Fingerprint,
}

impl Fingerprints {
    /// The fingerprints of a file of this length.
    pub(super) fn of(file: &mut File, extent: u64) -> io::Result<Fingerprints> {
        let head = read_piece(file, 0, extent.min(HEAD_BYTES as u64))?;
        let tail_bytes = extent.min(TAIL_BYTES as u64);
        let tail = read_piece(file, extent - tail_bytes, tail_bytes)?;
        Ok(Fingerprints { extent, head: Fingerprint::of(&head), tail: Fingerprint::of(&tail) })
    }

    /// Whether the file still has these bytes. It may have grown.
    pub(super) fn are_of(&self, file: &mut File) -> io::Result<bool> {
        if file.metadata()?.len() < self.extent {
            return Ok(false);
        }
        let (head_bytes, tail_bytes) = (u64::from(self.head.length), u64::from(self.tail.length));
        let head = read_piece(file, 0, head_bytes)?;
        if Fingerprint::of(&head) != self.head {
            return Ok(false);
        }
        let tail = read_piece(file, self.extent.saturating_sub(tail_bytes), tail_bytes)?;
        Ok(Fingerprint::of(&tail) == self.tail)
    }
}

/// Reads a piece of a file, or less if the file ends earlier.
pub(super) fn read_piece(file: &mut File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length as usize);
    file.seek(SeekFrom::Start(start))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How far a file was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileOffset {
    pub path: PathBuf,
    pub identity: FileIdentity,
    pub prints: Fingerprints,
    /// For text: all records before this byte were returned. If the file is compressed, it is a byte of the
    /// decompressed text.
    pub offset: u64,
    /// The number of the line that begins there.
    pub line: u64,
    /// Rows returned from behind `offset`.
    pub rows: u64,
    /// It was read to its end, and nothing more is expected.
    pub is_complete: bool,
}

impl FileOffset {
    /// The start of a file.
    pub(super) fn start(path: PathBuf, identity: FileIdentity) -> FileOffset {
        let prints = Fingerprints::default();
        FileOffset { path, identity, prints, offset: 0, line: 1, rows: 0, is_complete: false }
    }

    /// Little-endian: version, flags, numbers; then the path.
    pub(super) fn encode(&self) -> Vec<u8> {
        let flags = u8::from(self.is_complete) | u8::from(self.identity.is_some()) << 1;
        let (device, inode) = self.identity.unwrap_or_default();
        let Fingerprints { extent, head, tail } = self.prints;
        let mut bytes = vec![VERSION, flags];
        let numbers =
            [device, inode, extent, head.checksum, tail.checksum, self.offset, self.line, self.rows];
        numbers.iter().for_each(|number| bytes.put_u64(*number));
        bytes.put_u32(head.length);
        bytes.put_u32(tail.length);
        bytes.put(&path_bytes(&self.path));
        bytes
    }

    /// Reads what [`FileOffset::encode`] wrote.
    pub(super) fn decode(bytes: &[u8]) -> Result<FileOffset, Cause> {
        if let Some(version) = bytes.first().filter(|version| **version != VERSION) {
            return Err(Cause::user(format!(
                "the journal records in format version {version} how far a file was read, but this program \
                 reads version {VERSION}; use the program that wrote it"
            )));
        }
        decode(bytes).map_err(|Malformed| {
            Cause::operation(
                "the journal's record of how far a file was read is cut off; restore the \
                journal's folder",
            )
        })
    }
}

fn decode(bytes: &[u8]) -> Result<FileOffset, Malformed> {
    let mut fields = Fields(bytes);
    let (_version, flags) = (fields.u8()?, fields.u8()?);
    let identity = (fields.u64()?, fields.u64()?);
    let (extent, head, tail) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (offset, line, rows) = (fields.u64()?, fields.u64()?, fields.u64()?);
    Ok(FileOffset {
        identity: (flags & 2 != 0).then_some(identity),
        prints: Fingerprints {
            extent,
            head: Fingerprint { length: fields.u32()?, checksum: head },
            tail: Fingerprint { length: fields.u32()?, checksum: tail },
        },
        offset,
        line,
        rows,
        is_complete: flags & 1 != 0,
        path: path_of(fields.0),
    })
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_comes_back_and_a_damaged_one_is_refused() {
        let print = |text: &str| Fingerprint::of(text.as_bytes());
        let offset = FileOffset {
            path: "logs/ünïcode.csv".into(),
            identity: Some((7, u64::MAX)),
            prints: Fingerprints { extent: 90, head: print("id,name\n"), tail: print("7,x\n") },
            offset: 88,
            line: 12,
            rows: 3,
            is_complete: true,
        };
        let bytes = offset.encode();
        assert_eq!(FileOffset::decode(&bytes).unwrap(), offset);
        let other = FileOffset { identity: None, is_complete: false, ..offset };
        assert_eq!(FileOffset::decode(&other.encode()).unwrap(), other);
        for length in 0..74 {
            assert!(FileOffset::decode(&bytes[..length]).is_err(), "{length}");
        }
        assert!(FileOffset::decode(&[&[9], &bytes[1..]].concat()).is_err());
    }

    #[test]
    fn a_file_is_known_by_its_first_and_last_bytes_as_long_as_it_only_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let text: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &text).unwrap();
        let prints = Fingerprints::of(&mut File::open(&path).unwrap(), 10_000).unwrap();
        let is_same = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            prints.are_of(&mut File::open(&path).unwrap()).unwrap()
        };
        assert!(is_same(&text) && is_same(&text[..10_000]));
        let nothing = Fingerprints::default();
        assert!(nothing.are_of(&mut File::open(&path).unwrap()).unwrap(), "of which nothing was read");
        assert!(!is_same(&text[..9_999]) && !is_same(&text[1..]));
        let mut other = text.clone();
        other[9_990] ^= 1;
        assert!(!is_same(&other));
    }
}
