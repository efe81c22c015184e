//! Asks a process for the rows of its stores.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use parking_lot::{Mutex, MutexGuard};
use tidemill_core::Cause;

use super::message::{Moment, Question, Request, decode_found, decode_pinned, receive_frame, send_frame};
use crate::selection::{SelectedRows, Selection};
use crate::version::Pause;

/// How long a process may say nothing before it counts as away.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How often a reader looks meanwhile whether it is to wait on.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The most connections that are kept for later readers.
const IDLE_MAX: usize = 32;
/// The longest answer in front of rows.
pub(super) const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A process that has stores, as readers know it: where it is now, and under which name people know it.
pub struct Endpoint {
    name: String,
    place: Mutex<Whereabouts>,
}

struct Whereabouts {
    /// The path of its socket, or why there is none.
    socket: Result<PathBuf, String>,
    /// How often it has changed: connections to an earlier place are of no use.
    changes: u64,
    idle: Vec<UnixStream>,
}

impl Endpoint {
    /// A process that is not there yet. `name` is what messages call it, such as `gateway 'west'`.
    pub fn new(name: impl Into<String>) -> Endpoint {
        let socket = Err("it is being started".to_owned());
        Endpoint {
            name: name.into(),
            place: Mutex::new(Whereabouts { socket, changes: 0, idle: Vec::new() }),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From here on it answers at this socket.
    pub fn is_at(&self, socket: &Path) {
        self.change(Ok(socket.to_owned()));
    }

    /// From here on it is away, for this reason.
    pub fn is_away(&self, reason: impl Into<String>) {
        self.change(Err(reason.into()));
    }

    fn change(&self, socket: Result<PathBuf, String>) {
        let mut place = self.place();
        (place.socket, place.changes) = (socket, place.changes + 1);
        place.idle.clear();
    }

    fn place(&self) -> MutexGuard<'_, Whereabouts> {
        self.place.lock()
    }

    /// Takes a version of each of these views, all at one moment. They stay as long as one of them is kept.
    ///
    /// # Errors
    /// [`Cause::operation`] with its name if the process is away. The versions of single views have errors of their own.
    pub fn pin(
        self: &Arc<Self>,
        views: &[&str],
        moment: Moment,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<Result<RemoteVersion, Cause>>, Cause> {
        let views = views.iter().map(|view| (*view).to_owned()).collect();
        let request = Request::Pin { views, moment }.encode()?;
        let (stream, changes, answer) = match self.asked(&request, true, pause)? {
            Some(asked) => asked,
            // A connection that was kept has ended with its process, of which another one may run.
            None => self.asked(&request, false, pause)?.ok_or_else(|| self.away("it has ended"))?,
        };
        let pinned = decode_pinned(&answer).map_err(|_| self.away("its answer cannot be read"))?;
        let stream = Mutex::new(Some(stream));
        let link = Arc::new(Link { endpoint: Arc::clone(self), changes, stream });
        let version = |(number, pinned): (usize, Result<_, Cause>)| {
            pinned.map(|pinned: super::message::Pinned| RemoteVersion {
                link: Arc::clone(&link),
                number: number as u32,
                cycle: pinned.cycle,
            })
        };
        Ok(pinned.into_iter().enumerate().map(version).collect())
    }

    /// Asks over a connection that was kept, or over a new one; `None`: it has ended.
    fn asked(
        &self,
        request: &[u8],
        may_be_kept: bool,
        pause: &mut Pause<'_>,
    ) -> Result<Option<(UnixStream, u64, Vec<u8>)>, Cause> {
        let (kept, socket, changes) = {
            let mut place = self.place();
            let socket = place.socket.clone().map_err(|reason| self.away(&reason))?;
            (if may_be_kept { place.idle.pop() } else { None }, socket, place.changes)
        };
        let connected = match kept {
            Some(stream) => Ok(stream),
            None => UnixStream::connect(&socket),
        };
        let mut stream = connected.map_err(|error| self.away(&error.to_string()))?;
        stream.set_read_timeout(Some(LOOK))?;
        if send_frame(&mut stream, request).is_err() {
            return Ok(None);
        }
        let mut patient = Patient::new(&stream, pause);
        match receive_frame(&mut patient, ANSWER_BYTES_MAX) {
            Ok(answer) => Ok(Some((stream, changes, answer))),
            Err(error) => match patient.refused {
                Some(cause) => Err(cause),
                None if error.kind() == io::ErrorKind::TimedOut => Err(self.away(&error.to_string())),
                None => Ok(None),
            },
        }
    }

    /// A connection that nobody has used yet.
    pub(super) fn connect(&self) -> Result<UnixStream, Cause> {
        let socket = self.place().socket.clone().map_err(|reason| self.away(&reason))?;
        UnixStream::connect(&socket).map_err(|error| self.away(&error.to_string()))
    }

    pub(super) fn away(&self, reason: &str) -> Cause {
        let name = &self.name;
        Cause::operation(format!(
            "{name} does not answer: {reason}; it is started again by itself, so try again in some seconds"
        ))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A connection with the versions that were taken over it.
struct Link {
    endpoint: Arc<Endpoint>,
    changes: u64,
    /// `None`: it is of no use any more.
    stream: Mutex<Option<UnixStream>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        let stream = self.stream.get_mut().take();
        let Some(mut stream) = stream else { return };
        let Ok(release) = Request::Release.encode() else { return };
        let mut place = self.endpoint.place();
        let is_wanted = place.changes == self.changes && place.idle.len() < IDLE_MAX;
        if is_wanted && send_frame(&mut stream, &release).is_ok() {
            place.idle.push(stream);
        }
    }
}

/// A version of a view in a store of another process. It does not change, and stays there as long as it is kept here.
#[derive(Clone)]
pub struct RemoteVersion {
    link: Arc<Link>,
    number: u32,
    cycle: Option<u64>,
}

impl RemoteVersion {
    /// The cycle after which these were the rows; `None` before the first.
    pub fn cycle(&self) -> Option<u64> {
        self.cycle
    }

    /// Asks for the rows that meet these conditions, as [`Version::select`](crate::Version::select). Several processes are
    /// asked beside each other if all are asked before an answer is taken.
    ///
    /// # Errors
    /// If the process is away.
    pub fn select(&self, selection: &Selection) -> Result<RemoteAnswer<'_>, Cause> {
        self.ask(Question::Select(selection.clone()))
    }

    /// Asks for the nearest rows, as [`Version::nearest`](crate::Version::nearest).
    ///
    /// # Errors
    /// If the process is away.
    pub fn nearest(
        &self,
        to: (f64, f64),
        rows_max: usize,
        selection: &Selection,
    ) -> Result<RemoteAnswer<'_>, Cause> {
        self.ask(Question::Nearest { to, rows_max: rows_max as u64, selection: selection.clone() })
    }

    fn ask(&self, question: Question) -> Result<RemoteAnswer<'_>, Cause> {
        let request = Request::Rows { version: self.number, question }.encode()?;
        let mut stream = self.link.stream.lock();
        let endpoint = &self.link.endpoint;
        // Until the answer is taken completely, nothing else can be asked.
        let mut asked = stream.take().ok_or_else(|| endpoint.away("it has ended since the query began"))?;
        send_frame(&mut asked, &request).map_err(|error| endpoint.away(&error.to_string()))?;
        Ok(RemoteAnswer { endpoint, kept: stream, asked })
    }
}

/// Rows that were asked for.
pub struct RemoteAnswer<'a> {
    endpoint: &'a Endpoint,
    kept: MutexGuard<'a, Option<UnixStream>>,
    asked: UnixStream,
}

impl RemoteAnswer<'_> {
    /// The rows, in the order of their store. It calls `pause` while it waits, which may end the search with an error.
    ///
    /// # Errors
    /// Why the store has none, that the process is away, and those of `pause`.
    pub fn rows(mut self, pause: &mut Pause<'_>) -> Result<SelectedRows, Cause> {
        let mut patient = Patient::new(&self.asked, pause);
        let received = received(&mut patient);
        match (received, patient.refused) {
            (_, Some(cause)) => Err(cause),
            (Err(error), None) => Err(self.endpoint.away(&error.to_string())),
            (Ok(found), None) => {
                *self.kept = Some(self.asked);
                found
            }
        }
    }
}

fn received(stream: &mut Patient<'_, '_>) -> io::Result<Result<SelectedRows, Cause>> {
    let head = receive_frame(stream, ANSWER_BYTES_MAX)?;
    let head = decode_found(&head).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let (work, has_rows) = match head {
        Ok(head) => head,
        Err(cause) => return Ok(Err(cause)),
    };
    let batches = if has_rows { received_rows(stream)? } else { Vec::new() };
    Ok(Ok(SelectedRows { batches, work }))
}

/// The rows behind a frame. Nothing follows them, so what is read ahead is theirs.
pub(super) fn received_rows(stream: impl Read) -> io::Result<Vec<RecordBatch>> {
    let rows = StreamReader::try_new(BufReader::with_capacity(1 << 16, stream), None);
    rows.map_err(io::Error::other)?.collect::<Result<_, _>>().map_err(io::Error::other)
}

/// Reads from a process that may take its time, and looks now and then whether it is to wait on.
pub(super) struct Patient<'a, 'b> {
    stream: &'a UnixStream,
    pause: &'a mut Pause<'b>,
    /// How much was read.
    bytes: usize,
    /// Why it is not.
    pub refused: Option<Cause>,
}

impl<'a, 'b> Patient<'a, 'b> {
    pub fn new(stream: &'a UnixStream, pause: &'a mut Pause<'b>) -> Patient<'a, 'b> {
        Patient { stream, pause, bytes: 0, refused: None }
    }
}

impl Read for Patient<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            let read = self.stream.read(bytes);
            self.bytes += *read.as_ref().unwrap_or(&0);
            if let Err(cause) = (self.pause)(self.bytes) {
                self.refused = Some(cause);
                return Err(io::Error::other("the reader does not wait any longer"));
            }
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if since.elapsed() > PATIENCE {
                let message = format!("it has said nothing for {} s", PATIENCE.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }
}
