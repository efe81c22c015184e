//! A named pipe as a source of text: other processes write into it, until the last of them closes it.
//!
//! It is opened without waiting, so that nothing hangs if nobody writes. What was read of it cannot be read again.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Progress};

use super::failure::failed;
use super::text_progress::RowsRead;
use crate::formats::{DecoderSettings, Format, LineStream, RecordDecoder, project, text_decoder};

/// How many bytes of a file are read at once.
pub(super) const BLOCK_BYTES: usize = 512 * 1024;

/// How long it waits before it checks again.
const PAUSE: Duration = Duration::from_millis(10);

/// A pipe that is being read.
pub(super) struct Pipe {
    place: String,
    file: File,
    declared: SchemaRef,
    format: Format,
    lines: LineStream,
    decoder: Box<dyn RecordDecoder>,
    /// Whether it waits for other writers after the last one has closed it.
    follow: bool,
    has_ended: bool,
    /// Whether there is a writer, as far as is known.
    has_writer: bool,
    /// A pipe without a name has its writers from the beginning.
    is_named: bool,
    block: Vec<u8>,
    done_bytes: u64,
}

/// Whether there is a pipe at this path.
pub(crate) fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

impl Pipe {
    pub(super) fn open(
        path: &str,
        format: Format,
        follow: bool,
        settings: DecoderSettings,
    ) -> Result<Pipe, Cause> {
        let declared = settings.schema.clone();
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        }
        let file = options.open(path).map_err(|error| failed(path, error))?;
        let mut decoder = text_decoder(format.clone(), settings)?;
        decoder.begin(path);
        Ok(Pipe {
            place: path.to_owned(),
            file,
            declared,
            lines: LineStream::new(format.clone()),
            format,
            decoder,
            follow,
            has_ended: false,
            has_writer: false,
            is_named: Path::new(path).canonicalize().is_ok(),
            block: vec![0; BLOCK_BYTES],
            done_bytes: 0,
        })
    }

    pub(super) fn set_projection(&mut self, columns: &[usize]) -> Result<SchemaRef, Cause> {
        self.decoder.set_projection(columns)?;
        project(&self.declared, columns)
    }

    pub(super) fn keep_bad_records(&mut self) {
        self.decoder.keep_bad_records();
    }

    pub(super) fn follows(&self) -> bool {
        self.follow
    }

    /// Reads until there are rows, or the time is up. True: the end was reached.
    pub(super) fn read(
        &mut self,
        wait: Duration,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
    ) -> Result<bool, Cause> {
        let start = Instant::now();
        while !self.has_ended {
            let mut batches = VecDeque::new();
            let has_ended = self.read_some(&mut batches)?;
            faults.merge(self.decoder.faults());
            given.extend(batches.into_iter().map(|rows| RowsRead { rows, offset: None }));
            let left = wait.saturating_sub(start.elapsed());
            match has_ended {
                Some(true) if !self.follow => self.has_ended = true,
                None | Some(true) => std::thread::sleep(PAUSE.min(left)),
                Some(false) => {}
            }
            if !given.is_empty() || left.is_zero() {
                break;
            }
        }
        Ok(self.has_ended)
    }

    /// Reads what is available. `None`: nothing at the moment; true: its writers have closed it.
    fn read_some(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<Option<bool>, Cause> {
        match self.file.read(&mut self.block) {
            Ok(0) if !self.has_writer && self.is_named => Ok(None),
            Ok(0) => {
                self.has_writer = false;
                let rest = self.lines.push(b"", true);
                self.decoder.decode(&rest, batches)?;
                self.lines = LineStream::new(self.format.clone());
                self.decoder.finish(batches)?;
                self.decoder.begin(&self.place);
                Ok(Some(true))
            }
            Ok(count) => {
                self.has_writer = true;
                self.done_bytes += count as u64;
                let lines = self.lines.push(&self.block[..count], false);
                self.decoder.decode(&lines, batches)?;
                Ok(Some(false))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.has_writer = true;
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Some(false)),
            Err(error) => Err(failed(&self.place, error)),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.done_bytes, total: None }
    }
}
