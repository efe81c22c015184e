//! The text of a file: decompressed, and as lines of UTF-8.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use tidemill_core::error::Cause;

use super::failure::failed;
use super::offset::Fingerprints;
use super::parts::FilePart;
use super::pipe::BLOCK_BYTES;
use crate::file::gzip_read::{GzipReader, begins_gzip};
use crate::file::zstd_read::{ZstdError, ZstdReader, begins_zstd};
use crate::formats::{Format, SHAPE_BYTES, TextShape, ToLines};

/// The text of a file. It may be compressed, in UTF-16, or one JSON document; all that is recognised by its first bytes.
pub(crate) struct TextInput {
    bytes: FileBytes,
    shape: Option<TextShape>,
    to_lines: Option<ToLines>,
    /// What was read of the file and is not returned yet: `ready[returned..]`.
    ready: Vec<u8>,
    returned: usize,
    /// How many bytes of the file were counted.
    counted: u64,
}

/// The bytes of a file, plain or compressed with zstd or gzip.
enum FileBytes {
    Plain(File, u64),
    Zstd(Box<ZstdReader<File>>),
    Gzip(Box<GzipReader<File>>),
}

impl TextInput {
    pub(super) fn of_part(part: &FilePart, format: &Format) -> Result<TextInput, Cause> {
        TextInput::opened(&part.name(), || part.open(), format)
    }

    /// Of a file that this opens; `place` names it in messages.
    pub(super) fn opened(
        place: &str,
        open: impl Fn() -> std::io::Result<File>,
        format: &Format,
    ) -> Result<TextInput, Cause> {
        let mut bytes = FileBytes::opened(open).map_err(|error| failed(place, error))?;
        let mut start = vec![0; SHAPE_BYTES];
        let count = bytes.read_full(&mut start).map_err(|error| error.explain(place))?;
        start.truncate(count);
        let shape = TextShape::of(&start, true, format).flatten();
        if let Some(reason) = shape.and_then(TextShape::why_not_read) {
            return Err(Cause::user(format!("{place}: {reason}")));
        }
        let to_lines = shape.map(TextShape::to_lines);
        let mut input = TextInput { bytes, shape, to_lines, ready: Vec::new(), returned: 0, counted: 0 };
        match &mut input.to_lines {
            Some(to_lines) => to_lines.push(&start, &mut input.ready),
            None => input.ready = start,
        }
        Ok(input)
    }

    /// How messages name it.
    pub(super) fn place(&self, name: &str) -> String {
        self.shape.map_or_else(|| name.to_owned(), |shape| shape.place(name))
    }

    /// How many bytes of the file were read since this was last asked.
    pub(super) fn newly_read(&mut self) -> u64 {
        let offset = match &self.bytes {
            FileBytes::Plain(_, offset) => *offset,
            FileBytes::Zstd(reader) => reader.offset(),
            FileBytes::Gzip(reader) => reader.offset(),
        };
        offset - std::mem::replace(&mut self.counted, offset)
    }

    /// Advances to a byte of the text, of which this many were read.
    pub(super) fn go_to(&mut self, mut done: u64, offset: u64) -> Result<(), ZstdError> {
        if let (FileBytes::Plain(file, at), None, true) = (&mut self.bytes, &self.to_lines, done < offset) {
            *at = file.seek(SeekFrom::Start(offset)).map_err(ZstdError::Io)?;
            (self.ready, self.returned) = (Vec::new(), 0);
            return Ok(());
        }
        let mut skipped = vec![0; BLOCK_BYTES];
        while done < offset {
            let length = (offset - done).min(BLOCK_BYTES as u64) as usize;
            match self.read(&mut skipped[..length])? {
                0 => break,
                count => done += count as u64,
            }
        }
        Ok(())
    }

    /// Refuses the end of a file that was longer, or another one, when it was opened: rows are missing, or belong to two versions.
    pub(super) fn check_whole(&mut self, place: &str, prints: &Fingerprints) -> Result<(), Cause> {
        // What is compressed says itself where it ends.
        let FileBytes::Plain(file, offset) = &mut self.bytes else { return Ok(()) };
        let mut is_whole = || Ok(!file.metadata()?.is_file() || prints.are_of(file)?);
        if is_whole().map_err(|error| failed(place, error))? {
            Ok(())
        } else {
            Err(Cause::operation(format!(
                "{place}: the file was cut or rewritten while it was read, up to byte {offset}; read it when it is \
                 complete"
            )))
        }
    }

    /// Reads text; returns 0 at the end.
    pub(crate) fn read(&mut self, target: &mut [u8]) -> Result<usize, ZstdError> {
        loop {
            let ready = &self.ready[self.returned..];
            if !ready.is_empty() {
                let count = ready.len().min(target.len());
                target[..count].copy_from_slice(&ready[..count]);
                self.returned += count;
                return Ok(count);
            }
            let Some(to_lines) = &mut self.to_lines else { return self.bytes.read(target) };
            let mut block = vec![0; BLOCK_BYTES];
            let count = self.bytes.read(&mut block)?;
            self.returned = 0;
            self.ready.clear();
            match count {
                0 => to_lines.finish(&mut self.ready),
                count => to_lines.push(&block[..count], &mut self.ready),
            }
            if count == 0 && self.ready.is_empty() {
                return Ok(0);
            }
        }
    }
}

impl FileBytes {
    fn opened(open: impl Fn() -> std::io::Result<File>) -> std::io::Result<FileBytes> {
        let mut file = open()?;
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic)?;
        // A pipe cannot go back, and a compressed pipe is not supported.
        if file.rewind().is_err() {
            file = open()?;
        }
        Ok(if begins_zstd(&magic) {
            FileBytes::Zstd(Box::new(ZstdReader::new(file)))
        } else if begins_gzip(&magic) {
            FileBytes::Gzip(Box::new(GzipReader::new(file)))
        } else {
            FileBytes::Plain(file, 0)
        })
    }

    /// Reads bytes; returns 0 at the end.
    fn read(&mut self, target: &mut [u8]) -> Result<usize, ZstdError> {
        match self {
            FileBytes::Zstd(reader) => reader.read(target),
            FileBytes::Gzip(reader) => reader.read(target),
            FileBytes::Plain(file, offset) => loop {
                match file.read(target) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(ZstdError::Io(error)),
                    Ok(count) => {
                        *offset += count as u64;
                        return Ok(count);
                    }
                }
            },
        }
    }

    /// Reads until the target is full or the file ends.
    fn read_full(&mut self, target: &mut [u8]) -> Result<usize, ZstdError> {
        let mut filled = 0;
        while filled < target.len() {
            match self.read(&mut target[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

impl ZstdError {
    /// The error for the user, with the file's name.
    pub(crate) fn explain(self, place: &str) -> Cause {
        match self {
            ZstdError::Io(error) => failed(place, error),
            ZstdError::Corrupt { offset, detail } => Cause::user(format!(
                "{place}: damaged zstd file at byte {offset}: {detail}; copy it or compress it again"
            )),
            ZstdError::CorruptGzip { offset, detail } => Cause::user(format!(
                "{place}: damaged gzip file at byte {offset}: {detail}; copy it or compress it again"
            )),
            ZstdError::Unsupported { detail } => Cause::user(format!(
                "{place}: cannot be decompressed: {detail}; compress it with plain `zstd`"
            )),
        }
    }
}
