//! Answers in a folder: `type0.csv` to `type3.csv`.

use std::fs::{self, File};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tidemill_engine::{Cause, CycleOutput, Fault, Sink};

use super::tally::Tally;
use super::{KINDS, encode};

/// Writes answers into a folder. Committed answers are in the files, in whole lines; a cycle whose writing fails is cut
/// off again.
#[derive(Debug)]
pub struct AnswerFiles {
    files: Vec<AnswerFile>,
    tally: Tally,
}

#[derive(Debug)]
struct AnswerFile {
    path: PathBuf,
    file: File,
    prepared: Vec<u8>,
    committed_bytes: u64,
}

impl AnswerFiles {
    /// Creates the folder if it does not exist, and the files in it, replacing those of an earlier run.
    ///
    /// # Errors
    /// If the folder or a file cannot be written; the text names it.
    pub fn create(folder: &Path, tally: Tally) -> Result<Self, Cause> {
        fs::create_dir_all(folder).map_err(|error| cannot("create the folder", folder, &error))?;
        let create = |kind| {
            let path = path_of(folder, kind);
            let file = File::create(&path).map_err(|error| cannot("create", &path, &error))?;
            Ok(AnswerFile { path, file, prepared: Vec::new(), committed_bytes: 0 })
        };
        let files = (0..KINDS).map(create).collect::<Result<_, Cause>>()?;
        Ok(AnswerFiles { files, tally })
    }
}

/// The file of a kind of answers in a folder.
pub fn path_of(folder: &Path, kind: usize) -> PathBuf {
    folder.join(format!("type{kind}.csv"))
}

impl AnswerFile {
    fn write(&mut self) -> Result<(), Cause> {
        self.file.write_all(&self.prepared).map_err(|error| cannot("write", &self.path, &error))
    }

    fn accept(&mut self) {
        self.committed_bytes += self.prepared.len() as u64;
        self.prepared.clear();
    }

    /// Removes what was written of a range that could not be written completely.
    fn cut_off(&mut self) {
        // If even this fails, the error that is reported is still the first one.
        let _ = self.file.set_len(self.committed_bytes);
    }
}

impl Sink for AnswerFiles {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let now_ns = output.clock.now_ns();
        for (kind, answers) in output.streams.iter().enumerate() {
            if let Some(answers) = answers {
                self.tally.count(kind, answers, &output.arrivals, now_ns);
                encode::lines(kind, answers, &output.arrivals, now_ns, &mut self.files[kind].prepared);
            }
        }
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        // Whole cycles only: what does not fit into one file is cut off from all.
        let written = self.files.iter_mut().try_for_each(AnswerFile::write);
        self.files.iter_mut().for_each(if written.is_ok() {
            AnswerFile::accept
        } else {
            AnswerFile::cut_off
        });
        written
    }

    fn finish(&mut self) -> Result<(), Cause> {
        let sync =
            |file: &AnswerFile| file.file.sync_all().map_err(|error| cannot("write", &file.path, &error));
        self.files.iter().try_for_each(sync)
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Cause {
    let remedy = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "; free some space or choose another folder, then run again"
        }
        std::io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f), then run again",
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a folder that may be written to"
        }
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => {
            "; a file already has the folder's name: choose another name"
        }
        _ => "",
    };
    let fault = match error.kind() {
        // Another folder helps, trying again does not.
        std::io::ErrorKind::PermissionDenied
        | std::io::ErrorKind::ReadOnlyFilesystem
        | std::io::ErrorKind::AlreadyExists
        | std::io::ErrorKind::NotADirectory => Fault::User,
        _ => Fault::Operation,
    };
    Cause::new(fault, format!("cannot {what} {}: {error}{remedy}", path.display()))
}
