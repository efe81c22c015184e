//! Exit codes, and which error has which code.

use std::error::Error;
use std::process::ExitCode;

use tidemill_engine::{Cause, Fault, FlowError, chain};
use tidemill_linear_road::check::CheckError;
use tidemill_linear_road::generator::GeneratorError;
use tidemill_linear_road::rating::RatingError;
use tidemill_linear_road::run::{FailedRun, RunError};

use crate::{logging, terminal};

/// The exit codes as help texts show them.
macro_rules! exit_codes {
    () => {
        "Exit codes:\n  0    done\n  1    an operation failed (a full disk), a limit was reached, or a bug\n  \
         2    wrong usage, a wrong setting or bad input (a missing file; with --strict, a bad row)\n  3    a \
         check found differences\n  130  interrupted (Ctrl-C, SIGTERM, SIGHUP): everything taken in before is \
         answered"
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
    /// The code of an error: [`Exit::BadInput`] if what the user gave is at fault.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        match error.chain().find_map(fault_of) {
            Some(Fault::User) => Exit::BadInput,
            Some(Fault::Operation | Fault::Resource | Fault::Bug) | None => Exit::Failed,
        }
    }
}

/// Whose fault an error is, if it is one of those that say so.
fn fault_of(error: &(dyn Error + 'static)) -> Option<Fault> {
    if let Some(cause) = error.downcast_ref::<Cause>() {
        return Some(cause.fault);
    }
    if let Some(query) = error.downcast_ref::<FlowError>() {
        return Some(query.fault());
    }
    let run = error.downcast_ref::<FailedRun>().map(|failed| &failed.error);
    if let Some(run) = run.or_else(|| error.downcast_ref::<RunError>()) {
        return Some(run.fault());
    }
    #[cfg(feature = "sql")]
    if error.is::<crate::wrong_script::WrongScript>() {
        return Some(Fault::User);
    }
    let is_of_options =
        matches!(error.downcast_ref(), Some(RatingError::Options(_) | RatingError::Generator(_)));
    let is_users = error.is::<GeneratorError>() || error.is::<CheckError>() || is_of_options;
    is_users.then_some(Fault::User)
}

/// The error in one line. Our own errors state their reason themselves; what others omit is added from their sources.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let part = cause.to_string();
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        if fault_of(cause).is_some() {
            break;
        }
    }
    text
}

/// Tells people about an error; with a log, also every error that it comes from.
pub(crate) fn report(error: &anyhow::Error) {
    terminal::tell(&format!("error: {}", message(error)));
    if logging::is_on() {
        // One line each, although some libraries use several.
        let causes = chain(error.as_ref());
        let lines = causes.iter().skip(1).map(|cause| cause.replace('\n', " "));
        lines.for_each(|cause| terminal::tell(&format!("  because: {cause}")));
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use tidemill_engine::{Failure, SinkError};

    use super::*;

    #[test]
    fn only_what_the_user_can_correct_has_code_2() {
        let codes = [
            (Fault::User, Exit::BadInput),
            (Fault::Operation, Exit::Failed),
            (Fault::Resource, Exit::Failed),
            (Fault::Bug, Exit::Failed),
        ];
        for (fault, exit) in codes {
            let cause = Cause::new(fault, "a reason");
            assert_eq!(Exit::of(&cause.clone().into()), exit, "{fault:?}");
            assert_eq!(Exit::of(&anyhow::Error::from(cause.clone()).context("a place")), exit, "{fault:?}");
            let failure = Failure::Sink(SinkError { sink: "out".into(), cycle: 1, cause });
            assert_eq!(Exit::of(&FlowError::Failed(failure.clone()).into()), exit, "{fault:?}");
            assert_eq!(Exit::of(&RunError::Query(FlowError::Failed(failure)).into()), exit, "{fault:?}");
        }
        assert_eq!(Exit::of(&FlowError::Settings("0 workers".into()).into()), Exit::BadInput);
        assert_eq!(Exit::of(&anyhow::anyhow!("no more is known")), Exit::Failed);
    }

    #[test]
    fn a_message_states_each_reason_once() {
        let full = || std::io::Error::other("the disk is full");
        let cause = Cause::operation("'a.csv' cannot be written: the disk is full").with_source(full());
        assert_eq!(message(&cause.into()), "'a.csv' cannot be written: the disk is full");
        let hidden = Cause::operation("'a.csv' cannot be written").with_source(full());
        assert_eq!(message(&hidden.into()), "'a.csv' cannot be written");
        let context = Err::<(), _>(full()).context("cannot write to standard output").unwrap_err();
        assert_eq!(message(&context), "cannot write to standard output: the disk is full");
    }
}
