//! The rules of the repository, checked as a test (`cargo test -p tidemill-tidy`).
//!
//! | rule | what is absent |
//! |---|---|
//! | `timely` | a crate other than `tidemill-flow` that depends on Timely Dataflow |
//! | `datafusion` | a crate other than `tidemill-sql` and `tidemill-trees` that depends on DataFusion |
//! | `wasmi` | a crate other than `tidemill-wasm` that depends on wasmi |
//! | `edges` | a dependency among our packages that [`edges::ALLOWED`] does not list |
//! | `cycles` | modules of a crate that import each other in a circle, see [`cycles`] |
//! | `decisions` | a page of `docs/decisions` without a status, or that the index does not list |
//! | `features` | a package with SQL that, built by itself, needs dependencies with other features than the workspace |
//! | `glossary` | a type or path of `docs/glossary.md` that does not exist, and a retired name that does |
//! | `map` | a folder that the map of `ARCHITECTURE.md` does not name, and a name in it that is not a folder |
//! | `output` | printing, exiting, `dbg!` and `todo!` in library code: in each `src` but that of `cli` |
//! | `unsafe` | `unsafe` in a file that [`sources::UNSAFE_ALLOWED`] does not list |
//! | `file-length` | a Rust file of more than 800 lines |
//! | `folder-files` | a folder below `src` with more than 25 Rust files, see [`spread`] |
//! | `type-files` | a type with methods in more than 3 files, see [`spread`] |
//! | `line-length` | a line of Rust of more than 120 characters, unless it is a comment or has a URL |
//! | `module-files` | a file `x.rs` beside a folder `x`: its module is `x/mod.rs` |
//! | `names` | a file or folder named `utils`, `common`, `helpers` or `misc` |
//! | `prose` | a phrase of [`prose::PHRASES`], or a noun that is denied (`is no number`), in text or comments |
//! | `test-binaries` | a second binary of integration tests in a package, see [`test_binaries`] |
//! | `machine-paths` | a path of somebody's machine, in `src` and in the repository's own texts |
//!
//! A rule is a function from what it looks at to its findings, so each has its own test with a text that breaks it.

pub mod cycles;
pub mod decisions;
pub mod edges;
pub mod features;
pub mod glossary;
pub mod imports;
pub mod map;
pub mod prose;
pub mod rust_text;
pub mod sources;
pub mod spread;
pub mod test_binaries;
pub mod tree;

use std::fmt;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File or folder, relative to the repository's root.
    pub file: String,
    /// Line number from 1; 0 if the finding is about the whole file.
    pub line: usize,
    /// The rule's name, as in the table above.
    pub rule: &'static str,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}; {}", self.file, self.line, self.rule, self.found, self.remedy)
    }
}
