//! The intake thread: parses the reader's output, and feeds it to the engine.

use std::sync::Arc;
use std::thread::JoinHandle;

use tidemill_engine::PoolEntry;

use super::control::Control;
use super::error::RunError;
use super::feeder::{Ended, Feeder};
use super::reader::{LineParcel, Next, Parcel, Reader};
use crate::text_read::InputParser;

/// A thread that is told to end when its handle is dropped.
pub(super) struct IntakeThread {
    control: Arc<Control>,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

impl IntakeThread {
    pub fn start(
        reader: Reader,
        first: Next,
        feeder: Feeder,
        control: &Arc<Control>,
        pool: PoolEntry,
    ) -> Result<IntakeThread, RunError> {
        let intake =
            InputLoop { reader, feeder, control: Arc::clone(control), parser: InputParser::default() };
        let builder = std::thread::Builder::new().name("intake".into());
        let thread = builder.spawn(move || {
            // An event that is taken in late is answered late.
            let _member = pool.join();
            intake.run(first)
        });
        let thread = thread.map_err(RunError::Thread)?;
        Ok(IntakeThread { control: Arc::clone(control), thread: Some(thread) })
    }

    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the input, or until the control says that the run should end.
    pub fn join(mut self) -> Result<(), RunError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or(Err(RunError::Panicked("intake")))
    }
}

impl Drop for IntakeThread {
    fn drop(&mut self) {
        self.control.abandon();
    }
}

struct InputLoop {
    reader: Reader,
    feeder: Feeder,
    control: Arc<Control>,
    parser: InputParser,
}

/// Why the intake stops.
enum Halt {
    Ended,
    Error(RunError),
}

impl From<Ended> for Halt {
    fn from(_: Ended) -> Halt {
        Halt::Ended
    }
}

impl<E: Into<RunError>> From<E> for Halt {
    fn from(error: E) -> Halt {
        Halt::Error(error.into())
    }
}

impl InputLoop {
    /// Whatever was fed is answered, however this ends: dropping the feeder ends the source normally.
    fn run(mut self, first: Next) -> Result<(), RunError> {
        match self.take_all(first) {
            Ok(()) | Err(Halt::Ended) => Ok(()),
            Err(Halt::Error(error)) => {
                // The good lines before the fault are answered; if they cannot be fed, the query says why.
                let _ = self.feeder.flush();
                Err(error)
            }
        }
    }

    fn take_all(&mut self, first: Next) -> Result<(), Halt> {
        let mut next = first;
        loop {
            next = match next {
                Next::End => return Ok(self.feeder.flush()?),
                Next::NotYet => {
                    // A slow sender is answered as soon as possible.
                    self.feeder.flush()?;
                    self.reader.next(&self.control)?
                }
                Next::Parcel(parcel) => {
                    match &parcel {
                        Parcel::Lines(lines) => self.lines(lines)?,
                        Parcel::Events(events) => {
                            events.iter().try_for_each(|event| self.feeder.event(event))?;
                        }
                    }
                    self.reader.give_back(parcel);
                    self.reader.try_next()?
                }
            }
        }
    }

    fn lines(&mut self, parcel: &LineParcel) -> Result<(), Halt> {
        for line in parcel.chunk().lines() {
            match self.parser.parse(&line) {
                Ok(event) => self.feeder.event(&event)?,
                Err(error) => {
                    if self.control.is_ended() {
                        return Err(Halt::Ended);
                    }
                    self.control.bad_lines().record(&parcel.file, &line, error)?;
                }
            }
        }
        Ok(())
    }
}
