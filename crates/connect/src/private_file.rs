//! Files that nobody else may read: keys, passwords, tokens.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidemill_core::Cause;

/// The longest such file.
const BYTES_MAX: u64 = 1 << 20;
/// What others may do with a file: read it or write it.
const OTHERS: u32 = 0o006;

/// Reads a file that only its user, or its group, may read. A file that others may read is not a secret, and a file that
/// others may write is not ours: both are refused, as ssh refuses such keys.
///
/// # Errors
/// [`Cause::user`] if others may read or write it, if it cannot be read, or if it is not a file of at most 1 MiB.
///
/// ```
/// use std::os::unix::fs::PermissionsExt;
///
/// let file = tempfile::NamedTempFile::new()?;
/// std::fs::write(file.path(), "7 bytes")?;
/// assert_eq!(tidemill_connect::read_private_file(file.path())?, b"7 bytes");
///
/// std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644))?;
/// let refused = tidemill_connect::read_private_file(file.path()).unwrap_err();
/// assert!(refused.message.contains("may be read by other users"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_private_file(path: &Path) -> Result<Vec<u8>, Cause> {
    let place = path.display();
    let unreadable = |error: std::io::Error| {
        Cause::user(format!("'{place}' cannot be read: {error}; name a file that this user may read"))
            .with_source(error)
    };
    // Looked at before it is opened, for opening a pipe would wait for its writer.
    let is_file = std::fs::metadata(path).map_err(unreadable)?.is_file();
    if !is_file {
        return Err(Cause::user(format!("'{place}' is not a file; name a file")));
    }
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(Cause::user(format!(
            "'{place}' may be read by other users (its mode is {mode:04o}); run chmod o= '{place}'"
        )));
    }
    if metadata.len() > BYTES_MAX {
        return Err(Cause::user(format!(
            "'{place}' has more than {} MiB; name another file",
            BYTES_MAX >> 20
        )));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
