//! The tokens that clients must send: one for all, or several with names from a file, which is read again when it changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use parking_lot::{Mutex, MutexGuard};
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

/// Who sends a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenOwner {
    /// Nobody who is known.
    Nobody,
    /// Somebody who may not write to this source.
    NotHere(String),
    /// Somebody who may; an empty name if tokens have none.
    Somebody(String),
}

/// A file with a name and a token on each line, and the sources to which its owner may write.
pub(crate) struct TokenFile {
    path: PathBuf,
    /// The source that asks.
    source: String,
    state: Mutex<FileState>,
}

struct FileState {
    looked_at: Instant,
    version: Option<FileVersion>,
    tokens: Vec<NamedToken>,
    /// How often the tokens have changed.
    changes: u64,
}

/// By what a changed file is recognised: modification in seconds and nanoseconds, inode, length.
type FileVersion = (i64, i64, u64, u64);

struct NamedToken {
    name: String,
    token: Vec<u8>,
    /// To which sources its owner may write; `None`: to all.
    sources: Option<Vec<String>>,
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
    /// Reads the file, if there is one, for the source of this name.
    pub fn open(token: Option<String>, file: Option<PathBuf>, source: &str) -> Result<Tokens, Cause> {
        match (token, file) {
            (None, None) => Ok(Tokens::NotNeeded),
            (Some(token), None) => Ok(Tokens::One(token)),
            (None, Some(path)) => {
                let (version, tokens) = (version_of(&path), read(&path)?);
                let state = FileState { looked_at: Instant::now(), version, tokens, changes: 0 };
                Ok(Tokens::File(TokenFile { path, source: source.to_owned(), state: Mutex::new(state) }))
            }
            (Some(_), Some(_)) => Err(Cause::user("choose either a token or a file of tokens")),
        }
    }

    /// Whose token this is.
    pub fn owner_of(&self, given: Option<&[u8]>) -> TokenOwner {
        match (self, given) {
            (Tokens::NotNeeded, _) => TokenOwner::Somebody(String::new()),
            (_, None) => TokenOwner::Nobody,
            (Tokens::One(token), Some(given)) => {
                if is_same(given, token.as_bytes()) {
                    TokenOwner::Somebody(String::new())
                } else {
                    TokenOwner::Nobody
                }
            }
            (Tokens::File(file), Some(given)) => file.owner_of(given),
        }
    }

    /// How often the tokens have changed. What was somebody's may be nobody's since.
    pub fn changes(&self) -> u64 {
        match self {
            Tokens::NotNeeded | Tokens::One(_) => 0,
            Tokens::File(file) => file.looked_at().changes,
        }
    }
}

impl TokenFile {
    fn owner_of(&self, given: &[u8]) -> TokenOwner {
        let state = self.looked_at();
        // All are compared, so that the time does not tell which one is similar.
        let fitting = state.tokens.iter().filter(|named| is_same(given, &named.token));
        fitting.fold(TokenOwner::Nobody, |_, named| match &named.sources {
            Some(sources) if !sources.contains(&self.source) => TokenOwner::NotHere(named.name.clone()),
            _ => TokenOwner::Somebody(named.name.clone()),
        })
    }

    /// The tokens, after a look at the file if it is time.
    fn looked_at(&self) -> MutexGuard<'_, FileState> {
        let mut state = self.state.lock();
        if state.looked_at.elapsed() >= LOOK_INTERVAL {
            state.looked_at = Instant::now();
            self.read_again(&mut state);
        }
        state
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
                state.changes += 1;
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
        let (name, token) = (words.next(), words.next());
        // There may be blanks behind commas.
        let sources = words.collect::<Vec<_>>().join(" ");
        let sources: Vec<String> = sources.split(',').map(|source| source.trim().to_owned()).collect();
        let is_for_all = sources == [""];
        let are_names = || sources.iter().all(|source| !source.is_empty() && !source.contains(' '));
        match (name, token) {
            (None, _) => {}
            (Some(word), _) if word.starts_with('#') => {}
            (Some(name), Some(token)) if is_for_all || are_names() => {
                let (name, token) = (name.to_owned(), token.as_bytes().to_vec());
                tokens.push(NamedToken { name, token, sources: (!is_for_all).then_some(sources) });
            }
            _ => {
                return Err(Cause::user(format!(
                    "tokens: '{place}', line {number}: write a name, a space and a token; behind them, if its owner \
                     may not write to each source, a space and the names of those sources with commas between them"
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn opened(text: &str, source: &str) -> Result<Tokens, Cause> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        fs::set_permissions(file.path(), Permissions::from_mode(0o600)).expect("set");
        Tokens::open(None, Some(file.path().to_owned()), source)
    }

    #[test]
    fn a_token_is_for_all_sources_or_for_those_that_are_named() {
        let text = "ada one\nbob two clicks\neve three orders, Clicks ,views\n# a comment of words\n\n";
        let owner = |source: &str, token: &str| {
            opened(text, source).expect("tokens").owner_of(Some(token.as_bytes()))
        };
        let (ada, bob, eve) = ("ada".to_owned(), "bob".to_owned(), "eve".to_owned());
        for source in ["clicks", "orders"] {
            assert_eq!(owner(source, "one"), TokenOwner::Somebody(ada.clone()));
        }
        assert_eq!(owner("clicks", "two"), TokenOwner::Somebody(bob.clone()));
        assert_eq!(owner("orders", "two"), TokenOwner::NotHere(bob.clone()));
        // A prefix of a name, or its other case, is another name.
        assert_eq!(owner("click", "two"), TokenOwner::NotHere(bob));
        assert_eq!(owner("clicks", "three"), TokenOwner::NotHere(eve.clone()));
        for source in ["orders", "Clicks", "views"] {
            assert_eq!(owner(source, "three"), TokenOwner::Somebody(eve.clone()));
        }
        assert_eq!(owner("clicks", "four"), TokenOwner::Nobody);
    }

    #[test]
    fn a_line_with_other_words_is_refused_and_shows_no_token() {
        for line in ["ada", "ada secret a b", "ada secret a,,b", "ada secret ,", "ada secret a,b c"] {
            let cause = opened(&format!("bob two\n{line}\n"), "s").expect_err(line);
            assert!(cause.message.contains("line 2") && !cause.message.contains("secret"), "{cause}");
        }
    }
}
