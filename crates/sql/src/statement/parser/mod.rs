//! From text to tokens, and from tokens to what the SQL parser reads, with errors in plain language.

pub(super) mod cursor;
pub(super) mod dialect;
pub(super) mod foreign;
pub(super) mod foreign_words;
pub(super) mod keywords;
pub(super) mod nesting;
pub(super) mod parser_error;
pub(super) mod parser_steps;
pub(super) mod plain_words;
pub(super) mod query_hint;
pub(super) mod row_counts;
pub(crate) mod system_time;
pub(super) mod tokens;
pub(super) mod words;
