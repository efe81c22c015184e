//! The reader thread: reads and decompresses, or generates, ahead of the intake.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use tidemill_connect::{LineChunk, LineFile};

use super::control::Control;
use super::error::RunError;
use super::options::Input;
use crate::event::Event;
use crate::generator::Generator;

/// Parcels between reader and intake: a mebibyte of text, or a second of generated traffic each.
const PARCELS_AHEAD: usize = 4;
/// How long a wait for the reader may last before checking whether the run should end.
const PATIENCE: Duration = Duration::from_millis(20);

/// Consecutive input.
pub(super) enum Parcel {
    Lines(LineParcel),
    Events(Vec<Event>),
}

/// A [`LineChunk`] that owns its bytes.
pub(super) struct LineParcel {
    pub file: Arc<str>,
    bytes: Vec<u8>,
    first_line: u64,
    ends_with_newline: bool,
    over_long: Option<u64>,
}

impl LineParcel {
    pub fn chunk(&self) -> LineChunk<'_> {
        LineChunk {
            bytes: &self.bytes,
            first_line: self.first_line,
            ends_with_newline: self.ends_with_newline,
            over_long: self.over_long,
        }
    }
}

/// The end is sent explicitly, so that a reader that panics is not taken for one that has finished.
enum Message {
    Parcel(Parcel),
    End,
    Failed(RunError),
}

/// The intake's end of the reader.
pub(super) struct Reader {
    messages: Receiver<Message>,
    used: Sender<Parcel>,
}

/// What the reader has next.
pub(super) enum Next {
    Parcel(Parcel),
    /// Nothing yet.
    NotYet,
    End,
}

impl Reader {
    /// Starts to open and read the input.
    pub fn start(input: &Input) -> Result<Reader, RunError> {
        let (sender, messages) = sync_channel(PARCELS_AHEAD);
        let (used, spare) = channel();
        let outbox = ParcelSender { sender, spare };
        let body: Box<dyn FnOnce() + Send> = match input {
            Input::Files(paths) => {
                let paths = paths.clone();
                Box::new(move || outbox.send_end(read_files(&paths, &outbox)))
            }
            Input::Generated(config) => {
                let generator = Generator::new(*config)?;
                Box::new(move || outbox.send_end(generate(generator, &outbox)))
            }
        };
        // The thread is not joined: it may wait for a pipe that nobody writes to.
        std::thread::Builder::new().name("reader".into()).spawn(body).map_err(RunError::Thread)?;
        Ok(Reader { messages, used })
    }

    /// What is available without waiting.
    pub fn try_next(&self) -> Result<Next, RunError> {
        match self.messages.try_recv() {
            Ok(message) => message.open(),
            Err(TryRecvError::Empty) => Ok(Next::NotYet),
            Err(TryRecvError::Disconnected) => Err(RunError::Panicked("reader")),
        }
    }

    /// Waits for the next item; a run that is told to end has none.
    pub fn next(&self, control: &Control) -> Result<Next, RunError> {
        loop {
            if control.is_ended() {
                return Ok(Next::End);
            }
            match self.messages.recv_timeout(PATIENCE) {
                Ok(message) => return message.open(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Panicked("reader")),
            }
        }
    }

    /// Returns a parcel, whose memory is reused.
    pub fn give_back(&self, parcel: Parcel) {
        // The reader may have finished already.
        let _ = self.used.send(parcel);
    }
}

impl Message {
    fn open(self) -> Result<Next, RunError> {
        match self {
            Message::Parcel(parcel) => Ok(Next::Parcel(parcel)),
            Message::End => Ok(Next::End),
            Message::Failed(error) => Err(error),
        }
    }
}

/// The reader's end.
struct ParcelSender {
    sender: SyncSender<Message>,
    spare: Receiver<Parcel>,
}

impl ParcelSender {
    /// False if nobody needs more.
    fn send(&self, parcel: Parcel) -> bool {
        self.sender.send(Message::Parcel(parcel)).is_ok()
    }

    fn send_end(&self, end: Result<(), RunError>) {
        // A receiver that does not want the rest does not want its end either.
        let _ = self.sender.send(end.map_or_else(Message::Failed, |()| Message::End));
    }
}

/// All files are opened first, so that a missing one is reported before anything is answered. Opening reads a file's
/// first bytes and so may have to wait for them, which is one more reason for a separate thread.
fn read_files(paths: &[PathBuf], outbox: &ParcelSender) -> Result<(), RunError> {
    let files = paths.iter().map(LineFile::open).collect::<Result<Vec<_>, _>>()?;
    for mut file in files {
        let name: Arc<str> = file.name().into();
        let mut is_empty = true;
        while let Some(chunk) = file.next_chunk()? {
            is_empty = false;
            let mut bytes = match outbox.spare.try_recv() {
                Ok(Parcel::Lines(parcel)) => parcel.bytes,
                _ => Vec::new(),
            };
            bytes.clear();
            bytes.extend_from_slice(chunk.bytes);
            let LineChunk { first_line, ends_with_newline, over_long, .. } = chunk;
            let file = Arc::clone(&name);
            let parcel = LineParcel { file, bytes, first_line, ends_with_newline, over_long };
            if !outbox.send(Parcel::Lines(parcel)) {
                return Ok(());
            }
        }
        if is_empty {
            return Err(RunError::EmptyInput { path: name.to_string() });
        }
    }
    Ok(())
}

fn generate(mut generator: Generator, outbox: &ParcelSender) -> Result<(), RunError> {
    loop {
        let mut events = match outbox.spare.try_recv() {
            Ok(Parcel::Events(events)) => events,
            _ => Vec::new(),
        };
        events.clear();
        if !generator.next_second(&mut events) || !outbox.send(Parcel::Events(events)) {
            return Ok(());
        }
    }
}
