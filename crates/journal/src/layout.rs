//! The layout of a journal's folder.

use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;

/// The longest name of a stream, as a folder.
const NAME_BYTES_MAX: usize = 200;

pub(crate) fn manifest(folder: &Path) -> PathBuf {
    folder.join("journal")
}

pub(crate) fn lock(folder: &Path) -> PathBuf {
    folder.join("lock")
}

pub(crate) fn commits(folder: &Path) -> PathBuf {
    folder.join("commits")
}

pub(crate) fn away(folder: &Path) -> PathBuf {
    folder.join("away")
}

pub(crate) fn begun(folder: &Path) -> PathBuf {
    folder.join("begun")
}

pub(crate) fn beginning(folder: &Path) -> PathBuf {
    folder.join("beginning")
}

pub(crate) fn skips(folder: &Path) -> PathBuf {
    folder.join("skips")
}

pub(crate) fn epochs(folder: &Path) -> PathBuf {
    folder.join("epochs")
}

pub(crate) fn seen_epochs(folder: &Path) -> PathBuf {
    folder.join("epoch")
}

pub(crate) fn query(folder: &Path) -> PathBuf {
    folder.join("query")
}

pub(crate) fn identity(folder: &Path) -> PathBuf {
    folder.join("identity")
}

pub(crate) fn cuts(folder: &Path) -> PathBuf {
    folder.join("cuts")
}

pub(crate) fn snapshots(folder: &Path) -> PathBuf {
    folder.join("snapshots")
}

pub(crate) fn views(folder: &Path) -> PathBuf {
    folder.join("views")
}

/// The name of the file with the rows of a view.
pub(crate) fn rows_of_view(view: &str) -> Result<String, Cause> {
    Ok(format!("{}.rows", view_name(view)?))
}

/// The name of the folder with the chunks that this file names.
pub(crate) fn chunks_of_view(view: &str) -> Result<String, Cause> {
    Ok(format!("{}.chunks", view_name(view)?))
}

fn view_name(view: &str) -> Result<String, Cause> {
    stream_name(view).ok_or_else(|| Cause::user(format!("the view's name '{view}' is too long; shorten it")))
}

pub(crate) fn streams(folder: &Path) -> PathBuf {
    folder.join("streams")
}

pub(crate) fn current(folder: &Path) -> PathBuf {
    folder.join("current")
}

pub(crate) fn queries(folder: &Path) -> PathBuf {
    folder.join("queries")
}

/// Where the parts of a query are that its streams do not belong to: its description, cuts, snapshots, commits and views. The
/// first query of a folder has them in the folder itself.
pub(crate) fn query_folder(folder: &Path, number: u64) -> PathBuf {
    if number == 0 { folder.to_owned() } else { queries(folder).join(number.to_string()) }
}

/// The name of a stream's folder: letters, digits, `-` and `_` stand for themselves, other bytes are written as `%2e`.
/// `None`: too long, or empty.
pub(crate) fn stream_name(stream: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let mut name = String::new();
    for byte in stream.bytes() {
        if is_plain(byte) { name.push(char::from(byte)) } else { name.push_str(&format!("%{byte:02x}")) }
    }
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// The stream with a folder of this name.
pub(crate) fn stream_of(name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        rest = after;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}
