//! The tokens that clients must send: one for all, or several with names from a file, which is read again when it changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use tidemill_core::error::Cause;
use tracing::warn;

use crate::private_file::read_private_file;

/// How often the file is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The most tokens of a file.
const TOKENS_MAX: usize = 10_000;

/// What clients must send.
pub(crate) enum Tokens {
    /// Nothing.
    NotNeeded,
    /// The same for all.
    One(String),
    /// Each has one of its own.
    File(TokenFile),
}

/// A file with a name and a token on each line.
pub(crate) struct TokenFile {
    path: PathBuf,
    state: Mutex<FileState>,
}

struct FileState {
    looked_at: Instant,
    version: Option<FileVersion>,
    tokens: Vec<NamedToken>,
}

/// By what a changed file is recognised: modification in seconds and nanoseconds, inode, length.
type FileVersion = (i64, i64, u64, u64);

struct NamedToken {
    name: String,
    token: Vec<u8>,
}

impl fmt::Debug for Tokens {
    /// Without tokens.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Tokens::NotNeeded => "NotNeeded",
            Tokens::One(_) => "One",
            Tokens::File(_) => "File",
        })
    }
}

impl Tokens {
    /// Reads the file, if there is one.
    pub fn open(token: Option<String>, file: Option<PathBuf>) -> Result<Tokens, Cause> {
        match (token, file) {
            (None, None) => Ok(Tokens::NotNeeded),
            (Some(token), None) => Ok(Tokens::One(token)),
            (None, Some(path)) => {
                let (version, tokens) = (version_of(&path), read(&path)?);
                let state = FileState { looked_at: Instant::now(), version, tokens };
                Ok(Tokens::File(TokenFile { path, state: Mutex::new(state) }))
            }
            (Some(_), Some(_)) => Err(Cause::user("choose either a token or a file of tokens")),
        }
    }

    /// Whose token this is; an empty name if tokens have none. `None`: it is nobody's.
    pub fn name_of(&self, given: Option<&[u8]>) -> Option<String> {
        match self {
            Tokens::NotNeeded => Some(String::new()),
            Tokens::One(token) => {
                given.filter(|given| is_same(given, token.as_bytes())).map(|_| String::new())
            }
            Tokens::File(file) => file.name_of(given?),
        }
    }
}

impl TokenFile {
    fn name_of(&self, given: &[u8]) -> Option<String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked_at.elapsed() >= LOOK_INTERVAL {
            state.looked_at = Instant::now();
            self.read_again(&mut state);
        }
        // All are compared, so that the time does not tell which one is similar.
        let fitting = state.tokens.iter().filter(|named| is_same(given, &named.token));
        fitting.fold(None, |_, named| Some(named.name.clone()))
    }

    /// Takes over a changed file. If it cannot be used, the tokens that were known stay valid.
    fn read_again(&self, state: &mut FileState) {
        let version = version_of(&self.path);
        if version == state.version {
            return;
        }
        state.version = version;
        match read(&self.path) {
            Ok(tokens) => {
                warn!(file = %self.path.display(), tokens = tokens.len(), "the changed file of tokens was read");
                state.tokens = tokens;
            }
            Err(cause) => {
                warn!(%cause, "the changed file of tokens cannot be used; the old tokens stay valid")
            }
        }
    }
}

fn version_of(path: &Path) -> Option<FileVersion> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.ino(), metadata.len()))
}

/// The tokens of a file. Errors do not show them.
fn read(path: &Path) -> Result<Vec<NamedToken>, Cause> {
    let bytes =
        read_private_file(path).map_err(|cause| cause.map_message(|text| format!("tokens: {text}")))?;
    let place = path.display();
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        Cause::user(format!("tokens: '{place}' is not text; write a name and a token on each line"))
    })?;
    let mut tokens = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some(word), ..) if word.starts_with('#') => {}
            (Some(name), Some(token), None) => {
                tokens.push(NamedToken { name: name.to_owned(), token: token.as_bytes().to_vec() });
            }
            _ => {
                return Err(Cause::user(format!(
                    "tokens: '{place}', line {number}: write a name, a space and a token"
                )));
            }
        }
    }
    match tokens.len() {
        0 => Err(Cause::user(format!("tokens: '{place}' has none; write a name and a token on each line"))),
        1..=TOKENS_MAX => Ok(tokens),
        count => Err(Cause::user(format!("tokens: '{place}' has {count}, and may have {TOKENS_MAX}"))),
    }
}

/// Takes equally long for any wrong token of the right length.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    left.len() == right.len() && differences == 0
}
