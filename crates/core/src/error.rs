//! Errors, classified by whose fault they are.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use thiserror::Error;

/// Whose fault an error is. It decides what happens next: whether to try again, and how the command exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The user's: an input, a query or a setting cannot be served. The message says what to change.
    User,
    /// An operation on something outside failed (disk, network). Trying again may help.
    Operation,
    /// A resource limit was reached. The message says which one, and how to raise it.
    Resource,
    /// A bug of ours, or of a user's operator.
    Bug,
}

/// Why something failed: whose fault it is, what to tell people, and the error that it comes from.
///
/// The message is complete without the source: it states the reason as well. The source keeps what a library said, for
/// those who look deeper (see [`chain`]). Two causes are equal if they have the same fault and the same message.
///
/// ```
/// use tidemill_core::error::{Cause, Fault, chain};
///
/// let refused = std::io::Error::other("the disk is gone");
/// let cause = Cause::operation(format!("'out.csv' cannot be written: {refused}")).with_source(refused);
/// assert_eq!(cause.fault, Fault::Operation);
/// assert_eq!(cause.to_string(), "'out.csv' cannot be written: the disk is gone");
/// assert_eq!(chain(&cause), ["'out.csv' cannot be written", "the disk is gone"]);
/// ```
#[derive(Clone, Debug)]
pub struct Cause {
    /// Whose fault it is.
    pub fault: Fault,
    /// What happened, why, and what to do about it.
    pub message: Box<str>,
    /// A thin pointer: causes are part of results on the data path and must stay small.
    source: Option<Arc<Source>>,
}

type Source = Box<dyn Error + Send + Sync>;

impl Cause {
    /// The user's fault. The message says what to change.
    pub fn user(message: impl Into<String>) -> Cause {
        Cause::new(Fault::User, message)
    }

    /// An operation on something outside failed. Trying again may help.
    pub fn operation(message: impl Into<String>) -> Cause {
        Cause::new(Fault::Operation, message)
    }

    /// A limit was reached. The message says which one, and how to raise it.
    pub fn resource(message: impl Into<String>) -> Cause {
        Cause::new(Fault::Resource, message)
    }

    /// A bug of ours, or of a user's operator.
    pub fn bug(message: impl Into<String>) -> Cause {
        Cause::new(Fault::Bug, message)
    }

    /// A cause for which a variable says whose fault it is.
    pub fn new(fault: Fault, message: impl Into<String>) -> Cause {
        Cause { fault, message: message.into().into_boxed_str(), source: None }
    }

    /// The same cause, which keeps the error that it comes from.
    #[must_use]
    pub fn with_source(self, source: impl Error + Send + Sync + 'static) -> Cause {
        Cause { source: Some(Arc::new(Box::new(source))), ..self }
    }

    /// The same fault with the same source, in other words: usually with the place put in front.
    #[must_use]
    pub fn map_message(self, reword: impl FnOnce(&str) -> String) -> Cause {
        Cause { message: reword(&self.message).into_boxed_str(), ..self }
    }
}

impl Display for Cause {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let introduction = match self.fault {
            Fault::User | Fault::Operation => "",
            Fault::Resource => "limit reached: ",
            Fault::Bug => "this is a bug: ",
        };
        write!(formatter, "{introduction}{}", self.message)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let source: &(dyn Error + 'static) = &***self.source.as_ref()?;
        Some(source)
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        self.fault == other.fault && self.message == other.message
    }
}

impl Eq for Cause {}

impl From<std::io::Error> for Cause {
    fn from(error: std::io::Error) -> Self {
        Cause::operation(error.to_string()).with_source(error)
    }
}

/// An error and the errors that it comes from, the outermost first, one text each.
///
/// Many errors repeat the text of their source, at the end or within. What the next text says is cut off the end of a
/// text; a source that its error quotes elsewhere, or repeats completely, has no text of its own here.
pub fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(source) = next {
        next = source.source();
        let text = source.to_string();
        let Some(last) = texts.last_mut() else { break };
        match last.strip_suffix(text.as_str()).map(str::trim_end).and_then(|head| head.strip_suffix(':')) {
            Some(head) if !head.is_empty() => *last = head.to_owned(),
            _ if last.contains(&text) => continue,
            _ => {}
        }
        texts.push(text);
    }
    texts
}

/// An operator failed: which, where and when.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("operator '{operator}', partition {partition}, cycle {cycle}: {cause}")]
pub struct OperatorError {
    /// The operator's name in the plan.
    pub operator: String,
    /// The logical partition.
    pub partition: u32,
    /// The cycle.
    pub cycle: u64,
    /// Which events of the cycle caused the rows that the partition was given in it: their positions within the cycle,
    /// ascending, the first [`OperatorError::EVENTS_MAX`] of them. Empty if it was given none.
    pub events: Vec<u32>,
    /// The cause.
    #[source]
    pub cause: Cause,
}

impl OperatorError {
    /// Only the first this many events are reported.
    pub const EVENTS_MAX: usize = 1000;
}

/// A sink failed: which and when.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("sink '{sink}', cycle {cycle}: {cause}")]
pub struct SinkError {
    /// The sink's name in the plan.
    pub sink: String,
    /// The first cycle that was not committed.
    pub cycle: u64,
    /// The cause.
    #[source]
    pub cause: Cause,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Error)]
    #[error("the server closed the connection")]
    struct Closed(#[source] std::io::Error);

    #[test]
    fn a_cause_is_no_larger_than_an_enum_of_texts() {
        #[allow(dead_code)]
        enum Texts {
            User(String),
            Operation(String),
        }
        assert!(size_of::<Cause>() <= size_of::<Texts>());
        assert!(size_of::<Result<(), Cause>>() <= size_of::<Texts>());
    }

    #[test]
    fn a_source_is_kept_and_does_not_count_for_equality() {
        let plain = Cause::operation("no answer");
        let with_source = plain.clone().with_source(Closed(std::io::Error::other("reset")));
        assert_eq!(plain, with_source);
        assert_ne!(plain, Cause::user("no answer"));
        let reworded = with_source.map_message(|message| format!("db: {message}"));
        assert_eq!(reworded, Cause::operation("db: no answer"));
        assert_eq!(chain(&reworded), ["db: no answer", "the server closed the connection", "reset"]);
    }

    #[test]
    fn a_chain_says_nothing_twice() {
        let bare = Cause::from(std::io::Error::other("the disk is gone"));
        assert_eq!(chain(&bare), ["the disk is gone"]);
        let quoting = Cause::user("'f': reset; start it again").with_source(std::io::Error::other("reset"));
        assert_eq!(chain(&quoting), ["'f': reset; start it again"]);
        let sink = SinkError { sink: "out".into(), cycle: 7, cause: quoting };
        assert_eq!(chain(&sink), ["sink 'out', cycle 7", "'f': reset; start it again"]);
    }

    #[test]
    fn a_text_says_whose_fault_it_is_where_that_helps() {
        assert_eq!(Cause::user("a").to_string(), "a");
        assert_eq!(Cause::operation("a").to_string(), "a");
        assert_eq!(Cause::resource("a").to_string(), "limit reached: a");
        assert_eq!(Cause::bug("a").to_string(), "this is a bug: a");
    }
}
