//! Unix sockets: lines from programs of the same user on this machine.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;
use tidemill_core::{DelegatingSource, Source};

use super::client::Client;
use super::connection::Socket;
use super::listening::{Listener, Listening};
use super::{Peers, SocketSettings, SocketSource};
use crate::tokens::Tokens;

/// Rows of text over a Unix socket: from everyone who connects, or from one server.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::formats::{DecoderSettings, Format};
/// use tidemill_connect::socket::{SocketSettings, UnixLines};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::source::{Polled, Source};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true)]));
/// let decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("rows.socket");
/// let mut lines = UnixLines::listen(&path, SocketSettings::new(Format::Json, decoder))?;
///
/// UnixStream::connect(&path)?.write_all(b"{\"value\": 7}\n")?;
/// let Polled::Rows(rows) = lines.poll(Duration::from_secs(10))? else { panic!("there are rows") };
/// assert_eq!(rows.num_rows(), 1);
/// drop(lines);
/// assert!(!path.exists());
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Debug)]
pub struct UnixLines {
    source: SocketSource,
    /// Removed when the source is dropped.
    _file: Option<SocketFile>,
}

impl UnixLines {
    /// Listens at a path. The socket file is created, readable and writable only by this user, and removed at the end.
    /// A file left by a program that is gone is replaced.
    ///
    /// # Errors
    /// [`Cause::user`] if another program listens there, the path is not a socket, or a setting is not supported;
    /// [`Cause::operation`] if the file cannot be created.
    pub fn listen(path: impl AsRef<Path>, settings: SocketSettings) -> Result<UnixLines, Cause> {
        let path = path.as_ref();
        let mut file = None;
        let source = SocketSource::start(settings, |settings| {
            let (listener, made) = bind(path)?;
            file = Some(made);
            Ok(Peers::Listening(Box::new(Listening::new(
                Listener::Unix(listener),
                place(path),
                settings,
                None,
                Tokens::NotNeeded,
            ))))
        })?;
        Ok(UnixLines { source, _file: file })
    }

    /// Connects to a server and reads what it sends. If the connection ends or cannot be made, tries again, after 100
    /// ms at first and at most 10 s. What the server sends in between is missed.
    ///
    /// # Errors
    /// [`Cause::user`] if a setting is not supported. [`Source::poll`] notices a server that cannot be reached.
    pub fn connect(path: impl AsRef<Path>, settings: SocketSettings) -> Result<UnixLines, Cause> {
        let path = path.as_ref().to_owned();
        let source = SocketSource::start(settings, |settings| {
            let place = place(&path);
            let connect = Box::new(move || UnixStream::connect(&path).map(Socket::Unix));
            Ok(Peers::Server(Box::new(Client::new(connect, place, settings))))
        })?;
        Ok(UnixLines { source, _file: None })
    }

    /// How much the connections hold at the moment that the query has not taken; at most
    /// [`SocketSettings::queue_bytes`], apart from what is being decoded.
    pub fn held_bytes(&self) -> usize {
        self.source.held_bytes()
    }

    /// Makes only these of the declared columns, in this order. Call it before the first poll.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.source.set_projection(columns)
    }
}

impl DelegatingSource for UnixLines {
    fn inner(&self) -> &dyn Source {
        &self.source
    }

    fn inner_mut(&mut self) -> &mut dyn Source {
        &mut self.source
    }
}

/// The file of a listening socket; removed on drop if it is still the same.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // If it cannot be removed, the next one to listen replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

fn place(path: &Path) -> String {
    format!("unix socket {}", path.display())
}

fn bind(path: &Path) -> Result<(UnixListener, SocketFile), Cause> {
    let failed = |error: io::Error| {
        Cause::operation(format!(
            "{}: cannot listen: {error}; check the folder and its permissions",
            place(path)
        ))
        .with_source(error)
    };
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_dead(path)?;
            UnixListener::bind(path)
        }
        other => other,
    }
    .map_err(failed)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path).map_err(failed)? };
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok((listener, file))
}

/// Removes a socket file on which nobody listens.
fn remove_dead(path: &Path) -> Result<(), Cause> {
    let place = place(path);
    let metadata = fs::symlink_metadata(path)
        .map_err(|error| Cause::operation(format!("{place}: {error}")).with_source(error))?;
    if !metadata.file_type().is_socket() {
        return Err(Cause::user(format!(
            "{place}: a file that is not a socket exists there; choose another path"
        )));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(Cause::user(format!(
            "{place}: another program is listening there; stop it, or choose another \
                path"
        ))),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| {
                Cause::operation(format!("{place}: the old socket cannot be replaced: {error}; remove it"))
                    .with_source(error)
            })
        }
        Err(error) => Err(Cause::operation(format!(
            "{place}: cannot determine whether a program is listening there: {error}; choose another path"
        ))
        .with_source(error)),
    }
}
