//! A file of lines that has whole cycles only.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use tidemill_engine::Cause;

/// Lines that are kept until their cycles are committed; without a file, none are.
#[derive(Debug, Default)]
pub(crate) struct ResultFile {
    file: Option<(PathBuf, File)>,
    lines: Vec<u8>,
    committed_bytes: u64,
}

impl ResultFile {
    /// Creates the file with its first line, and replaces an earlier one.
    ///
    /// # Errors
    /// If it cannot be written; the text names it.
    pub(crate) fn create(path: &Path, header: &str) -> Result<Self, Cause> {
        let file = File::create(path).map_err(|error| cannot_write(path, error))?;
        let lines = format!("{header}\n").into_bytes();
        Ok(ResultFile { file: Some((path.to_owned(), file)), lines, committed_bytes: 0 })
    }

    /// Where the next lines belong, if there is a file.
    pub(crate) fn lines(&mut self) -> Option<&mut Vec<u8>> {
        self.file.is_some().then_some(&mut self.lines)
    }

    /// Writes the lines.
    ///
    /// # Errors
    /// If they cannot be written; then the file has the lines of earlier commits.
    pub(crate) fn commit(&mut self) -> Result<(), Cause> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let written = file.write_all(&self.lines);
        if let Err(error) = written {
            // Whole cycles only. If even this fails, the error that is reported is still the first one.
            let _ = file.set_len(self.committed_bytes);
            return Err(cannot_write(path, error));
        }
        self.committed_bytes += self.lines.len() as u64;
        self.lines.clear();
        Ok(())
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> Cause {
    let text = format!("cannot write {}: {error}; free some space or choose another file", path.display());
    Cause::operation(text).with_source(error)
}
