//! What the log says about a query names the query.

use tracing::{Span, error_span};

/// Returns the span of a query with this name. What is logged within, and by the threads that are started within, names the query.
///
/// ```
/// tidemill_sql::query_span("totals").in_scope(|| tracing::warn!("rows could not be computed and are left out"));
/// ```
pub fn query_span(name: &str) -> Span {
    // As severe as anything that names it, so that no level of the log leaves the name out.
    error_span!("run", query = name)
}

/// As [`query_span`], for a query without a name of its own: the names of its outputs stand for it.
pub(crate) fn span_of_outputs<'a>(names: impl Iterator<Item = &'a str>) -> Span {
    query_span(&names.collect::<Vec<_>>().join(", "))
}
