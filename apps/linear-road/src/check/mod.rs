//! Checks a run's answers against the expected ones (specification, section 11).
//!
//! Both are folders with a file per output type, `type0.csv` to `type3.csv`, plain or as `.csv.zst`, in the
//! formats of section 9. Lines may be in any order. The expected answers are held in memory (25 bytes each), the
//! run's answers are read once and only their first differences are kept.

mod answer;
mod compare;
mod expected;
mod report;

use std::io;
use std::path::{Path, PathBuf};

use tidemill_connect::LineFileError;

pub use answer::AnswerKind;
pub use report::{CheckReport, Difference, KindReport};

use crate::bad_lines::BadLine;

/// How to check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// How many examples of each kind of difference are kept per type.
    pub examples: usize,
    /// The longest permitted delay of types 0 to 3, in seconds; `None` if delays are not to be checked, for example
    /// after a run that was not in real time.
    pub limits_s: Option<[u16; 4]>,
}

/// Five examples, and the specification's limits.
impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { examples: 5, limits_s: Some([5, 5, 5, 10]) }
    }
}

/// Why answers could not be checked. Wrong answers are not an error, but a part of the report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// One of the two folders does not exist, or is not a folder.
    #[error("{path}: the folder of the {role} answers cannot be read: {source}; check the path")]
    Folder {
        /// The folder's path.
        path: PathBuf,
        /// `run's` or `expected`.
        role: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The expected answers of a type do not exist; an empty file means that there are none.
    #[error(
        "{folder}: has neither {name}.csv nor {name}.csv.zst; name the folder of the expected answers (an \
         empty file stands for no answers)"
    )]
    NoExpectedFile {
        /// The folder of the expected answers.
        folder: PathBuf,
        /// The file without its ending.
        name: String,
    },
    /// A file exists both plain and compressed.
    #[error("{plain}: exists as .zst, too, and it is unclear which of the two counts; remove one")]
    TwoFiles {
        /// The plain one.
        plain: PathBuf,
    },
    /// A line of the expected answers is wrong.
    #[error("{0}; the expected answers are damaged: create or copy them again")]
    BadExpected(BadLine),
    /// An answer is expected twice.
    #[error("{path}: {key} occurs twice; the expected answers are damaged: create or copy them again")]
    ExpectedTwice {
        /// The file.
        path: PathBuf,
        /// The answer's key.
        key: String,
    },
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] LineFileError),
}

/// Compares the answers of a run with the expected ones.
///
/// Type 2 is compared with `type2_allowed.csv` if the expected folder has it: then every balance of the last minute is
/// right as of its ResultTime. Otherwise ResultTime and Bal must be those of `type2.csv`. A type-3 answer of 0 where
/// none is expected is tolerated. Every well-formed line can be late, even a wrong one.
///
/// # Errors
/// A [`CheckError`] if a folder or an expected file is missing or damaged, or a file cannot be read. A run that wrote
/// no file for a type is not an error: all answers expected there are missing.
///
/// ```no_run
/// use std::path::Path;
/// use tidemill_linear_road::check::{CheckOptions, check};
///
/// let report = check(Path::new("answers"), Path::new("expected"), &CheckOptions::default())?;
/// println!("{report}");
/// assert!(report.is_exact());
/// # Ok::<(), tidemill_linear_road::check::CheckError>(())
/// ```
pub fn check(answers: &Path, expected: &Path, options: &CheckOptions) -> Result<CheckReport, CheckError> {
    require_folder(answers, "run's")?;
    require_folder(expected, "expected")?;
    let [toll, accident, balance, expenditure] = AnswerKind::ALL;
    Ok(CheckReport {
        kinds: [
            check_kind(toll, answers, expected, options)?,
            check_kind(accident, answers, expected, options)?,
            check_kind(balance, answers, expected, options)?,
            check_kind(expenditure, answers, expected, options)?,
        ],
    })
}

fn check_kind(
    kind: AnswerKind,
    answers: &Path,
    expected: &Path,
    options: &CheckOptions,
) -> Result<KindReport, CheckError> {
    let name = format!("type{}", kind.number());
    let answers = find_file(answers, &name)?;
    if kind == AnswerKind::Balance
        && let Some(allowed) = find_file(expected, "type2_allowed")?
    {
        let expected = expected::read_allowed_balances(&allowed)?;
        return compare::compare(kind, answers.as_deref(), expected, options);
    }
    let Some(path) = find_file(expected, &name)? else {
        return Err(CheckError::NoExpectedFile { folder: expected.to_owned(), name });
    };
    let expected = expected::read_exact(&path, kind)?;
    compare::compare(kind, answers.as_deref(), expected, options)
}

fn require_folder(path: &Path, role: &'static str) -> Result<(), CheckError> {
    match std::fs::read_dir(path) {
        Ok(_) => Ok(()),
        Err(source) => Err(CheckError::Folder { path: path.to_owned(), role, source }),
    }
}

/// `name.csv` or `name.csv.zst` in the folder, if one exists.
fn find_file(folder: &Path, name: &str) -> Result<Option<PathBuf>, CheckError> {
    let plain = folder.join(format!("{name}.csv"));
    let compressed = folder.join(format!("{name}.csv.zst"));
    match (plain.exists(), compressed.exists()) {
        (true, true) => Err(CheckError::TwoFiles { plain }),
        (true, false) => Ok(Some(plain)),
        (false, true) => Ok(Some(compressed)),
        (false, false) => Ok(None),
    }
}
