//! The edges of the language: what is refused, how that is said, and what columns are called.

mod clauses;
mod column_names;
mod functions;
mod support;
mod wrong_queries;
