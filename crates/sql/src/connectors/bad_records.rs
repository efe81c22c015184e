//! `dead_letters = 'FILE'` of sources: where records are kept that cannot be read.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidemill_connect::dead_letter::SourceLetters;

use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind, OptionValues};

pub(super) const DEAD_LETTERS: OptionDefinition = OptionDefinition::new(
    "dead_letters",
    OptionKind::Text,
    OptionDefault::Nothing("none: they are counted, and the first are shown"),
    "a file for records that cannot be read, and rows that are refused for their event time",
);

/// Where the bad records of a source are kept.
pub(super) struct LetterPlace {
    path: PathBuf,
    source: String,
    /// Whether an earlier run may have written them already.
    reads_again: bool,
    /// Whether a query has the file open.
    is_open: Arc<AtomicBool>,
}

impl LetterPlace {
    /// The place that the options name, if they name one. A source that makes its rows itself has no bad records.
    pub fn of(
        options: &OptionValues<'_>,
        source: &str,
        has_records: bool,
        reads_again: bool,
    ) -> Result<Option<LetterPlace>, OptionError> {
        let refused = |message: &str| Err(OptionError::new("dead_letters", message));
        match options.text("dead_letters") {
            None => Ok(None),
            Some("") => refused("'dead_letters' must be the path of a file"),
            Some(_) if !has_records => {
                refused("'dead_letters' has no effect here, because this source reads no records; remove it")
            }
            Some(path) => {
                let (path, source) = (PathBuf::from(path), source.to_owned());
                Ok(Some(LetterPlace { path, source, reads_again, is_open: Arc::default() }))
            }
        }
    }

    /// Keeps those of the source that is opened.
    pub fn kept(self, open: Arc<OpenSource>) -> Arc<OpenSource> {
        let LetterPlace { path, source, reads_again, is_open } = self;
        Arc::new(move |columns| SourceLetters::before(open(columns)?, &source, &path, reads_again, &is_open))
    }
}
