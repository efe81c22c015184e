//! Syntax of PostgreSQL that DataFusion's planner does not know, rewritten into syntax that it knows.

pub(super) mod exact_constants;
pub(super) mod extreme_of_other;
pub(super) mod interval_texts;
pub(super) mod joined_columns;
pub(super) mod json;
pub(super) mod like_escape;
pub(super) mod list_literal;
pub(super) mod ordinality;
pub(super) mod other_names;
pub(super) mod postgres_words;
pub(crate) mod similar_to;
pub(super) mod syntax;
pub(super) mod whole_rows;
