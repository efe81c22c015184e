//! Reads a gzip file with any number of members, and reports the offset of errors.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use super::zstd_read::ZstdError;

/// The first two bytes of a gzip member.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const COMPRESSED_BUFFER_BYTES: usize = 128 * 1024;

/// Whether a file that begins with these bytes is compressed with gzip.
pub(crate) fn begins_gzip(start: &[u8]) -> bool {
    start.starts_with(&GZIP_MAGIC)
}

/// A decoder of the members of `source` one after the other, as files have them that were appended to each other. Zeros after a
/// member are padding, as on tapes and of file systems that allocate in blocks.
pub(crate) struct GzipReader<R: Read> {
    /// `None` only while one member follows another.
    decoder: Option<GzDecoder<BufReader<Counted<R>>>>,
    ended: bool,
}

impl<R: Read> GzipReader<R> {
    pub(crate) fn new(source: R) -> Self {
        let counted = Counted { source, offset: 0, failed: false };
        let input = BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, counted);
        GzipReader { decoder: Some(GzDecoder::new(input)), ended: false }
    }

    /// Bytes of the compressed file consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.input().map_or(0, |input| input.get_ref().offset - input.buffer().len() as u64)
    }

    fn input(&self) -> Option<&BufReader<Counted<R>>> {
        self.decoder.as_ref().map(GzDecoder::get_ref)
    }

    /// Reads bytes; returns 0 at the end.
    pub(crate) fn read(&mut self, target: &mut [u8]) -> Result<usize, ZstdError> {
        self.read_members(target).map_err(|error| {
            if self.input().is_some_and(|input| input.get_ref().failed) {
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

    fn read_members(&mut self, target: &mut [u8]) -> io::Result<usize> {
        while !self.ended {
            let Some(decoder) = &mut self.decoder else { break };
            let count = decoder.read(target)?;
            if count > 0 || target.is_empty() {
                return Ok(count);
            }
            self.ended = skip_zeros(decoder.get_mut())?;
            if !self.ended {
                self.decoder = self.decoder.take().map(|decoder| GzDecoder::new(decoder.into_inner()));
            }
        }
        Ok(0)
    }
}

/// Skips zeros; true at the end of the file.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let buffer = input.fill_buf()?;
        let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
        let (is_end, is_all) = (buffer.is_empty(), zeros == buffer.len());
        input.consume(zeros);
        if is_end || !is_all {
            return Ok(is_end);
        }
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
    fn zeros_after_a_member_are_padding_and_anything_else_is_damage() {
        for zeros in [1, 512, 3 * COMPRESSED_BUFFER_BYTES] {
            let padded = [packed(b"first\n"), vec![0; zeros]].concat();
            assert_eq!(all(&padded).unwrap(), b"first\n", "{zeros}");
            assert_eq!(all(&[padded.clone(), packed(b"second\n")].concat()).unwrap(), b"first\nsecond\n");
            assert!(matches!(all(&[padded, b"x".to_vec()].concat()), Err(ZstdError::CorruptGzip { .. })));
        }
        assert!(all(&[&packed(b"first\n")[..], b"\x1f"].concat()).is_err());
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
