//! Syntax that the SQL parser or the planner does not know, rewritten into syntax that they know.

pub(super) mod any_of_list;
pub(super) mod distinct_from;
pub(super) mod empty_group;
pub(super) mod from_first;
pub(super) mod list_text;
pub(super) mod literal_tokens;
pub(super) mod row_values;
pub(super) mod standard_words;
pub(super) mod type_names;
