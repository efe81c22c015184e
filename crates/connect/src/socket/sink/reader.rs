//! A reader of a listening socket: its buffer, and the thread that sends to it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustls::ServerConfig;
use tracing::{Span, warn};

use super::address::Stream;
use crate::tls::failure;

/// The outcome of queueing a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Waiting,
    /// The reader is too slow: its buffer is full.
    Full,
    /// The reader has gone.
    Gone,
}

/// A connected reader.
pub(crate) struct SocketReader {
    stream: Stream,
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    texts: VecDeque<Arc<[u8]>>,
    /// The bytes of `texts`, and of the text that is being sent.
    bytes: usize,
    is_last: bool,
    /// The thread has ended: everything is sent, or the reader has gone.
    is_over: bool,
}

impl SocketReader {
    /// Starts a thread that sends to this reader.
    pub fn start(stream: Stream, tls: Option<Arc<ServerConfig>>) -> io::Result<SocketReader> {
        let queue = Arc::<Queue>::default();
        let (closing, shared) = (stream.try_clone()?, queue.clone());
        let span = Span::current();
        thread::Builder::new().name("socket-reader".into()).spawn(move || {
            let _entered = span.enter();
            // Not in the thread that accepts: a reader may take its time.
            let accepted = match tls {
                None => Ok(stream),
                Some(config) => stream.accept_tls(config),
            };
            match accepted {
                Ok(mut stream) => {
                    // Whatever the error, it means that this reader has gone.
                    let _ = shared.send_all(&mut stream);
                    let _ = stream.end();
                }
                Err(error) => {
                    let reason = failure(&error).unwrap_or_else(|| error.to_string());
                    warn!(reason, "a reader is cut off");
                }
            }
            shared.lock().is_over = true;
            shared.changed.notify_all();
        })?;
        Ok(SocketReader { stream: closing, queue })
    }

    /// Adds a text to the buffer, unless that would exceed `bytes_max`. An empty buffer accepts any text, so that a
    /// reader that keeps up is never too slow.
    pub fn push(&self, text: Arc<[u8]>, bytes_max: usize) -> Pushed {
        let mut state = self.queue.lock();
        if state.is_over {
            return Pushed::Gone;
        }
        if state.bytes > 0 && state.bytes + text.len() > bytes_max {
            return Pushed::Full;
        }
        state.bytes += text.len();
        state.texts.push_back(text);
        self.queue.changed.notify_all();
        Pushed::Waiting
    }

    /// Nothing follows: the thread ends when everything is sent.
    pub fn end(&self) {
        self.queue.lock().is_last = true;
        self.queue.changed.notify_all();
    }

    /// Waits until everything is sent or the reader has gone; false if neither happens in time.
    pub fn wait(&self, until: Instant) -> bool {
        let mut state = self.queue.lock();
        while !state.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.queue.changed.wait_for(&mut state, left);
        }
        true
    }
}

impl Drop for SocketReader {
    /// Ends the thread even if it is sending.
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.texts.clear();
        state.is_last = true;
        if !state.is_over {
            // An error means that the connection is closed already.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    fn send_all(&self, stream: &mut Stream) -> io::Result<()> {
        while let Some(text) = self.next() {
            stream.write_all(&text)?;
            stream.flush()?;
            self.lock().bytes -= text.len();
        }
        Ok(())
    }

    fn next(&self) -> Option<Arc<[u8]>> {
        let mut state = self.lock();
        loop {
            match state.texts.pop_front() {
                None if !state.is_last => self.changed.wait(&mut state),
                text => return text,
            }
        }
    }
}
