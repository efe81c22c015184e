//! Statements that define, change and drop things, and the parts of a definition.

pub(super) mod add_columns;
pub(super) mod alter;
pub(super) mod altered;
pub(super) mod body_text;
pub(super) mod code_of_file;
pub(super) mod columns;
pub(super) mod create_function;
pub(super) mod create_places;
pub(super) mod create_pool;
pub(super) mod create_process;
pub(super) mod create_sink;
pub(super) mod create_source;
pub(super) mod create_view;
pub(super) mod drop;
pub(super) mod function_code;
pub(super) mod stop_start;
pub(super) mod typed_name;
