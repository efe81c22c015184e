//! Reads a gzip file with any number of members, and reports the offset of errors.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::zstd_read::ZstdError;

/// The first two bytes of a gzip member.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const COMPRESSED_BUFFER_BYTES: usize = 128 * 1024;

/// Whether a file that begins with these bytes is compressed with gzip.
pub(crate) fn begins_gzip(start: &[u8]) -> bool {
    start.starts_with(&GZIP_MAGIC)
}

/// A decoder of the members of `source` one after the other, as files have them that were appended to each other.
pub(crate) struct GzipReader<R: Read> {
    decoder: MultiGzDecoder<BufReader<Counted<R>>>,
}

impl<R: Read> GzipReader<R> {
    pub(crate) fn new(source: R) -> Self {
        let counted = Counted { source, offset: 0, failed: false };
        GzipReader {
            decoder: MultiGzDecoder::new(BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, counted)),
        }
    }

    /// Bytes of the compressed file consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        let input = self.decoder.get_ref();
        input.get_ref().offset - input.buffer().len() as u64
    }

    /// Reads bytes; returns 0 at the end.
    pub(crate) fn read(&mut self, target: &mut [u8]) -> Result<usize, ZstdError> {
        self.decoder.read(target).map_err(|error| {
            if self.decoder.get_ref().get_ref().failed {
                ZstdError::Io(error)
            } else {
                ZstdError::CorruptGzip {
                    offset: self.offset(),
                    detail: match error.kind() {
                        io::ErrorKind::UnexpectedEof => "it ends in the middle".to_owned(),
                        _ => error.to_string(),
                    },
                }
            }
        })
    }
}

/// Counts what is read, and knows whether reading has failed, rather than what was read.
struct Counted<R> {
    source: R,
    offset: u64,
    failed: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let read = loop {
            match self.source.read(target) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match &read {
            Ok(count) => self.offset += *count as u64,
            Err(_) => self.failed = true,
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn all(bytes: &[u8]) -> Result<Vec<u8>, ZstdError> {
        let mut reader = GzipReader::new(bytes);
        let (mut text, mut block) = (Vec::new(), [0; 7]);
        loop {
            match reader.read(&mut block)? {
                0 => return Ok(text),
                count => text.extend_from_slice(&block[..count]),
            }
        }
    }

    #[test]
    fn members_are_read_one_after_the_other() {
        let bytes = [packed(b"first\n"), packed(b""), packed(b"second\n")].concat();
        assert_eq!(all(&bytes).unwrap(), b"first\nsecond\n");
    }

    #[test]
    fn every_torn_end_and_every_changed_byte_of_the_text_is_noticed() {
        let bytes = packed(&b"0123456789".repeat(50));
        for length in 2..bytes.len() {
            assert!(matches!(all(&bytes[..length]), Err(ZstdError::CorruptGzip { .. })), "{length}");
        }
        // Nothing checks the time and the system in the header.
        for at in 10..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(all(&changed).is_err(), "byte {at}");
        }
    }
}
