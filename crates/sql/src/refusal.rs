//! What streaming cannot answer, with the reason and an alternative.

use std::error::Error;
use std::fmt;

use datafusion::common::{DataFusionError, Diagnostic, Span};
use datafusion::sql::sqlparser::tokenizer::Span as TokenSpan;

use crate::text::Problem;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Why it is not possible.
    pub reason: String,
    /// What can be done instead.
    pub way_out: String,
    pub problem: Problem,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.reason, self.way_out)
    }
}

impl Error for Refusal {}

/// What is not possible and what can be done instead, as a planning error.
pub(crate) fn refuse(reason: impl Into<String>, way_out: &str) -> DataFusionError {
    refuse_for(Problem::NotSupported, reason, way_out)
}

/// The same for another reason than that it is not possible over a stream.
pub(crate) fn refuse_for(problem: Problem, reason: impl Into<String>, way_out: &str) -> DataFusionError {
    let refusal = Refusal { reason: reason.into(), way_out: way_out.to_string(), problem };
    DataFusionError::External(Box::new(refusal))
}

/// The same, at a place in the text.
pub(crate) fn refuse_at(place: TokenSpan, reason: impl Into<String>, way_out: &str) -> DataFusionError {
    let reason = reason.into();
    let diagnostic = Diagnostic::new_error(reason.clone(), Span::try_from_sqlparser_span(place));
    refuse(reason, way_out).with_diagnostic(diagnostic)
}
