//! Why a run could not start, or ended early.

use std::io;

use tidemill_connect::LineFileError;
use tidemill_engine::{Cause, Fault, FlowError, PoolError};

use super::options::PaceError;
use crate::bad_lines::BadLine;
use crate::generator::GeneratorError;

/// Why a run could not start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file of the input, or the history, cannot be read.
    #[error(transparent)]
    File(#[from] LineFileError),
    /// A file of the input has no line.
    #[error("{path}: the file is empty; name a file of Linear Road input, or generate one")]
    EmptyInput {
        /// The file.
        path: String,
    },
    /// All lines of the input are bad.
    #[error(
        "{paths}: not one valid line in {bad_lines}; is this Linear Road input (15 numbers per line, \
         separated by commas)?"
    )]
    NoValidLine {
        /// The input's files.
        paths: String,
        /// How many lines it has.
        bad_lines: u64,
    },
    /// All lines of the history are bad.
    #[error(
        "{path}: not one valid line in {bad_lines}; is this a history (VID,Day,XWay,Toll on each line)? The \
         first: {first}"
    )]
    NoValidHistory {
        /// The file.
        path: String,
        /// How many lines it has.
        bad_lines: u64,
        /// The first of them, with the reason.
        first: String,
    },
    /// A bad line in a strict run.
    #[error("{0}; a strict run stops here: correct the line, or let the run count bad lines and continue")]
    BadLine(#[from] BadLine),
    /// Such traffic cannot be generated.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// Such a pace is not possible.
    #[error(transparent)]
    Pace(#[from] PaceError),
    /// The system refuses the priority.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A file that is read would be replaced by answers.
    #[error(
        "{path}: the run reads this file and would overwrite it with answers; choose another folder for the answers"
    )]
    WouldReplace {
        /// The file.
        path: String,
    },
    /// The files of answers cannot be created.
    #[error("{0}")]
    Answers(Cause),
    /// The query cannot run, or failed.
    #[error(transparent)]
    Query(#[from] FlowError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}; raise the limit of threads (ulimit -u)")]
    Thread(io::Error),
    /// A thread ended without giving a reason.
    #[error("this is a bug: the {0} thread panicked")]
    Panicked(&'static str),
}

impl RunError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            RunError::File(error) => fault_of_file(error),
            RunError::EmptyInput { .. }
            | RunError::NoValidLine { .. }
            | RunError::NoValidHistory { .. }
            | RunError::BadLine(_)
            | RunError::WouldReplace { .. }
            | RunError::Generator(_)
            | RunError::Pace(_)
            | RunError::Pool(_) => Fault::User,
            RunError::Answers(cause) => cause.fault,
            RunError::Query(error) => error.fault(),
            RunError::Thread(_) => Fault::Resource,
            RunError::Panicked(_) => Fault::Bug,
        }
    }
}

fn fault_of_file(error: &LineFileError) -> Fault {
    match error {
        LineFileError::Io { .. } => Fault::Operation,
        _ => Fault::User,
    }
}
