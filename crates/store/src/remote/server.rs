//! Answers readers of other processes.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use parking_lot::Mutex;
use tidemill_core::Cause;

use super::message::{
    ChangesHead, FollowPosition, Moment, Pinned, Question, Request, encode_changes, encode_found,
    encode_pinned, receive_frame, send_frame,
};
use crate::selection::SelectedRows;
use crate::version::Version;

/// The most readers at a time.
const READERS_MAX: usize = 256;
/// The longest question: a key may be a text.
const QUESTION_BYTES_MAX: usize = 16 << 20;

/// Knows the stores of a process by the names of their views.
pub trait StoreDirectory: Send + Sync {
    /// A version of each of these views, all at this moment; or why there is none.
    fn versions(&self, views: &[String], moment: Moment) -> Vec<Result<Version, Cause>>;

    /// Follows a view, from its rows or from a place on.
    ///
    /// # Errors
    /// If there is no such view, or what comes behind the place is not known any more.
    fn follow(&self, view: &str, after: Option<FollowPosition>) -> Result<Box<dyn ViewFollower>, Cause> {
        let _ = after;
        Err(Cause::user(format!("view '{view}' cannot be followed")))
    }
}

/// Follows a view for a reader in another process.
pub trait ViewFollower: Send {
    /// What has changed since the last call. It does not wait.
    ///
    /// # Errors
    /// Why there will be no more changes, although the view has not ended.
    fn next_changes(&mut self) -> Result<Changes, Cause>;
}

/// What has changed in a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The changes, with the columns that reader and directory have agreed on; `None`: there are none yet.
    pub rows: Option<RecordBatch>,
    /// With the rows, everything up to here has been given; `None`: the rows are part of a cycle, or nothing was given yet.
    pub place: Option<FollowPosition>,
    /// Whether there will be no more.
    pub is_over: bool,
}

/// Answers readers at a Unix socket, each in a thread of its own, until it is dropped.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::{Cause, arrow::array::{Int64Array, RecordBatch}};
/// use tidemill_store::remote::{Endpoint, Moment, StoreDirectory, StoreServer};
/// use tidemill_store::{Selection, StoreConfig, StoreReader, StoreWriter, Version};
///
/// struct OneView(StoreReader);
/// impl StoreDirectory for OneView {
///     fn versions(&self, views: &[String], _: Moment) -> Vec<Result<Version, Cause>> {
///         views.iter().map(|_| Ok(self.0.latest())).collect()
///     }
/// }
/// let rows = RecordBatch::try_from_iter([("vid", Arc::new(Int64Array::from(vec![7, 8])) as _)])?;
/// let (mut writer, reader) = StoreWriter::new(StoreConfig::new(&rows.schema()))?;
/// writer.append(0, &[rows.clone()])?;
/// # let folder = tempfile::tempdir()?;
/// let socket = folder.path().join("readers");
/// let _server = StoreServer::start(&socket, Arc::new(OneView(reader)))?;
///
/// // In another process:
/// let west = Arc::new(Endpoint::new("gateway 'west'"));
/// west.is_at(&socket);
/// let cars = west.pin(&["cars"], Moment::Newest, &mut |_| Ok(()))?.remove(0)?;
/// let found = cars.select(&Selection::default())?.rows(&mut |_| Ok(()))?;
/// assert_eq!((cars.cycle(), found.batches), (Some(0), vec![rows]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StoreServer {
    path: PathBuf,
    readers: Arc<Readers>,
    accepting: Option<JoinHandle<()>>,
}

/// The readers that are connected, by number; `None`: no more are accepted.
type Readers = Mutex<Option<BTreeMap<u64, Arc<UnixStream>>>>;

impl StoreServer {
    /// Listens at this path. What an earlier process has left there is replaced. Whoever may write to the socket may read all
    /// stores, so its folder must belong to the user alone.
    ///
    /// # Errors
    /// If the socket cannot be made there.
    pub fn start(path: &Path, directory: Arc<dyn StoreDirectory>) -> Result<StoreServer, Cause> {
        let failed = |error: io::Error| {
            let message = format!("no socket for readers can be made at {}: {error}", path.display());
            Cause::operation(message).with_source(error)
        };
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let readers = Arc::new(Mutex::new(Some(BTreeMap::new())));
        let connected = Arc::clone(&readers);
        let accepting = thread::Builder::new().name("accept readers".into());
        let accepting = accepting.spawn(move || accept(&listener, &directory, &connected)).map_err(failed)?;
        Ok(StoreServer { path: path.to_owned(), readers, accepting: Some(accepting) })
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        let readers = self.readers.lock().take().unwrap_or_default();
        readers.values().for_each(|reader| drop(reader.shutdown(Shutdown::Both)));
        // It waits for a reader.
        if UnixStream::connect(&self.path).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, directory: &Arc<dyn StoreDirectory>, readers: &Arc<Readers>) {
    for (number, stream) in (0_u64..).zip(listener.incoming()) {
        let Ok(stream) = stream.map(Arc::new) else { continue };
        match readers.lock().as_mut() {
            None => return,
            // Who is one too many sees the end of the connection.
            Some(connected) if connected.len() >= READERS_MAX => continue,
            Some(connected) => drop(connected.insert(number, Arc::clone(&stream))),
        }
        let (directory, left) = (Arc::clone(directory), Arc::clone(readers));
        let leave = move || drop(left.lock().as_mut().and_then(|connected| connected.remove(&number)));
        let leave_at_once = leave.clone();
        let reader = thread::Builder::new().name("reader".into()).spawn(move || {
            let _ = answer(&stream, &*directory);
            leave();
        });
        if reader.is_err() {
            leave_at_once();
        }
    }
}

/// Answers one reader until it leaves, or sends something else.
fn answer(mut stream: &UnixStream, directory: &dyn StoreDirectory) -> io::Result<()> {
    let mut versions: Vec<Result<Version, Cause>> = Vec::new();
    let mut follower: Option<Result<Box<dyn ViewFollower>, Cause>> = None;
    loop {
        let request = receive_frame(&mut stream, QUESTION_BYTES_MAX)?;
        let request = Request::decode(&request).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        match request {
            Request::Pin { views, moment } => {
                versions = directory.versions(&views, moment);
                let pinned = |version: &Result<Version, Cause>| match version {
                    Ok(version) => Ok(Pinned { cycle: version.cycle() }),
                    Err(cause) => Err(cause.clone()),
                };
                send_frame(&mut stream, &encode_pinned(&versions.iter().map(pinned).collect::<Vec<_>>()))?;
            }
            Request::Rows { version, question } => {
                let found = match versions.get(version as usize) {
                    Some(Ok(version)) => found(version, &question),
                    Some(Err(cause)) => Err(cause.clone()),
                    None => Err(Cause::bug(format!("version {version} was never asked for"))),
                };
                send_rows(stream, found)?;
            }
            Request::Release => versions.clear(),
            Request::Follow { view, after } => follower = Some(directory.follow(&view, after)),
            Request::Changes => {
                let changes = match &mut follower {
                    Some(Ok(follower)) => follower.next_changes(),
                    Some(Err(cause)) => Err(cause.clone()),
                    None => Err(Cause::bug("no view was named whose changes are to be given")),
                };
                send_changes(stream, changes)?;
            }
        }
    }
}

fn found(version: &Version, question: &Question) -> Result<SelectedRows, Cause> {
    match question {
        Question::Select(selection) => version.select(selection),
        Question::Nearest { to, rows_max, selection } => {
            version.nearest(*to, usize::try_from(*rows_max).unwrap_or(usize::MAX), selection)
        }
    }
}

fn send_rows(stream: &UnixStream, found: Result<SelectedRows, Cause>) -> io::Result<()> {
    let head = found.as_ref().map(|found| (found.work, !found.batches.is_empty())).map_err(Cause::clone);
    let batches = found.map_or_else(|_| Vec::new(), |found| found.batches);
    send_behind(stream, &encode_found(&head), &batches)
}

fn send_changes(stream: &UnixStream, changes: Result<Changes, Cause>) -> io::Result<()> {
    let head = changes.as_ref().map_err(Cause::clone).map(|changes| ChangesHead {
        place: changes.place,
        is_over: changes.is_over,
        has_rows: changes.rows.is_some(),
    });
    let rows = changes.ok().and_then(|changes| changes.rows);
    send_behind(stream, &encode_changes(&head), rows.as_slice())
}

/// Sends rows behind a frame that says whether there are some.
fn send_behind(stream: &UnixStream, head: &[u8], batches: &[RecordBatch]) -> io::Result<()> {
    let mut sending = BufWriter::with_capacity(1 << 16, stream);
    send_frame(&mut sending, head)?;
    if let Some(first) = batches.first() {
        let mut writer = StreamWriter::try_new(&mut sending, &first.schema()).map_err(io::Error::other)?;
        batches.iter().try_for_each(|batch| writer.write(batch)).map_err(io::Error::other)?;
        writer.finish().map_err(io::Error::other)?;
    }
    sending.flush()
}
