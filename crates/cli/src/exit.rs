//! Exit codes, and which error has which code.

use std::process::ExitCode;

use tidemill_engine::Fault;
use tidemill_linear_road::check::CheckError;
use tidemill_linear_road::generator::GeneratorError;
use tidemill_linear_road::rating::RatingError;
use tidemill_linear_road::run::{FailedRun, RunError};

/// The exit codes as help texts show them.
macro_rules! exit_codes {
    () => {
        "Exit codes:\n  0    done\n  1    an operation failed (a full disk), or a bug\n  2    wrong usage or bad \
         input (a missing file; a bad row, where there is --strict)\n  3    a check found differences\n  130  \
         interrupted (Ctrl-C, SIGTERM, SIGHUP): what was taken in by then is answered"
    };
}

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    BadInput = 2,
    Differences = 3,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Exit {
    /// The code of an error that is not of a query in SQL: [`Exit::BadInput`] if what the user gave is at fault.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        let run = error.downcast_ref::<FailedRun>().map(|failed| &failed.error);
        let run = run.or_else(|| error.downcast_ref::<RunError>());
        if let Some(run) = run {
            return if run.fault() == Fault::User { Exit::BadInput } else { Exit::Failed };
        }
        let is_of_options =
            matches!(error.downcast_ref(), Some(RatingError::Options(_) | RatingError::Generator(_)));
        match error.is::<GeneratorError>() || error.is::<CheckError>() || is_of_options {
            true => Exit::BadInput,
            false => Exit::Failed,
        }
    }
}

/// The error with its causes, each printed once: our own errors repeat theirs.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
