//! Reads a zstd file with any number of frames, and reports the offset of errors.
//!
//! `ruzstd`'s own `StreamingDecoder` stops after the first frame and does not verify checksums. Concatenated files, and
//! files of parallel compressors, have many frames.

use std::io::{self, BufRead, BufReader, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The first four bytes of a zstd frame.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes 1 to 3 of a skippable frame; byte 0 is 0x50 to 0x5f.
const SKIPPABLE_MAGIC_TAIL: [u8; 3] = [0x2a, 0x4d, 0x18];
const COMPRESSED_BUFFER_BYTES: usize = 128 * 1024;

/// Whether a file that begins with these bytes is compressed with zstd.
pub(crate) fn begins_zstd(start: &[u8]) -> bool {
    start.starts_with(&ZSTD_MAGIC)
        || (start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == SKIPPABLE_MAGIC_TAIL)
}

/// Why reading a zstd file failed.
#[derive(Debug)]
pub(crate) enum ZstdError {
    /// The underlying file failed.
    Io(io::Error),
    /// The bytes before `offset` of the compressed file are not valid zstd.
    Corrupt { offset: u64, detail: String },
    /// The bytes before `offset` of the compressed file are not valid gzip.
    CorruptGzip { offset: u64, detail: String },
    /// Valid, but requires what this decoder refuses: a dictionary or a huge window.
    Unsupported { detail: String },
}

/// A decoder of the frames of `source` one after the other.
pub(crate) struct ZstdReader<R> {
    decoder: FrameDecoder,
    source: Tracked<R>,
    in_frame: bool,
    frame_bytes_out: u64,
    failed: bool,
}

impl<R: Read> ZstdReader<R> {
    pub(crate) fn new(source: R) -> Self {
        let inner = BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, source);
        let source = Tracked { inner, offset: 0, hit_end: false, failure: None };
        ZstdReader {
            decoder: FrameDecoder::new(),
            source,
            in_frame: false,
            frame_bytes_out: 0,
            failed: false,
        }
    }

    /// Bytes of the compressed file consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.source.offset
    }

    /// Decompresses into `target`; returns 0 only at the end of the last frame. After an error only errors follow.
    pub(crate) fn read(&mut self, target: &mut [u8]) -> Result<usize, ZstdError> {
        if self.failed {
            return Err(self.corrupt("an error before stopped the decoder"));
        }
        let result = self.read_frames(target);
        self.failed = result.is_err();
        result
    }

    fn read_frames(&mut self, target: &mut [u8]) -> Result<usize, ZstdError> {
        loop {
            if !self.in_frame && !self.begin_frame()? {
                return Ok(0);
            }
            if self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decode_some(target.len())?;
            }
            let count = self.decoder.read(target).map_err(ZstdError::Io)?;
            self.frame_bytes_out += count as u64;
            if count == 0 && self.decoder.is_finished() {
                self.end_frame()?;
            }
            if count > 0 {
                return Ok(count);
            }
        }
    }

    fn decode_some(&mut self, wanted_bytes: usize) -> Result<(), ZstdError> {
        let strategy = BlockDecodingStrategy::UptoBytes(wanted_bytes.clamp(1, 1 << 20));
        match self.decoder.decode_blocks(&mut self.source, strategy) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Reads the next frame's header, and skips skippable frames; false at the end of the file.
    fn begin_frame(&mut self) -> Result<bool, ZstdError> {
        loop {
            if self.source.inner.fill_buf().map_err(ZstdError::Io)?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.in_frame = true;
                    self.frame_bytes_out = 0;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(u64::from(length))?,
                Err(error) => return Err(self.explain(error)),
            }
        }
    }

    fn skip(&mut self, length: u64) -> Result<(), ZstdError> {
        let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink());
        match skipped.map_err(ZstdError::Io)? {
            count if count < length => Err(self.corrupt("the file ends inside a skippable frame")),
            _ => Ok(()),
        }
    }

    fn end_frame(&mut self) -> Result<(), ZstdError> {
        self.in_frame = false;
        let declared = self.decoder.content_size();
        if declared != 0 && declared != self.frame_bytes_out {
            let found = self.frame_bytes_out;
            return Err(self.corrupt(&format!("a frame has {found} bytes, its header says {declared}")));
        }
        match self.decoder.get_checksum_from_data() {
            Some(stored) if Some(stored) != self.decoder.get_calculated_checksum() => {
                Err(self.corrupt("the checksum of the content does not match"))
            }
            _ => Ok(()),
        }
    }

    fn corrupt(&self, detail: &str) -> ZstdError {
        ZstdError::Corrupt { offset: self.source.offset, detail: detail.to_owned() }
    }

    fn explain(&mut self, error: FrameDecoderError) -> ZstdError {
        if let Some(failure) = self.source.failure.take() {
            return ZstdError::Io(failure);
        }
        match error {
            FrameDecoderError::WindowSizeTooBig { requested, max } => ZstdError::Unsupported {
                detail: format!("it needs a window of {requested} bytes, but at most {max} are allowed"),
            },
            FrameDecoderError::DictNotProvided { dict_id } => {
                ZstdError::Unsupported { detail: format!("it needs the dictionary {dict_id}") }
            }
            _ if self.source.hit_end => self.corrupt("the file ends in the middle of a frame"),
            FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::BadMagicNumber(_)) => {
                self.corrupt("something other than a zstd frame follows")
            }
            other => self.corrupt(&other.to_string()),
        }
    }
}

/// A buffered reader that keeps track of its offset and of errors below the decoder.
struct Tracked<R> {
    inner: BufReader<R>,
    offset: u64,
    hit_end: bool,
    failure: Option<io::Error>,
}

impl<R: Read> Read for Tracked<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(target) {
            Ok(count) => {
                self.offset += count as u64;
                self.hit_end |= count == 0 && !target.is_empty();
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let copy = io::Error::new(error.kind(), error.to_string());
                self.failure = Some(error);
                Err(copy)
            }
        }
    }
}
