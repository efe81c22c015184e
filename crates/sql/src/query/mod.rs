//! A query on its way from a plan to its end: prepared, opened, running.

pub(crate) mod bound_text;
pub(crate) mod costs_text;
pub(crate) mod divided_query;
pub(crate) mod durable_view;
pub(crate) mod explain;
pub(crate) mod first_rows;
pub(crate) mod goes_first;
pub(crate) mod kept_deadline;
pub(crate) mod limited;
pub(crate) mod measurement;
pub(crate) mod mending;
pub(crate) mod opened;
pub(crate) mod past;
pub(crate) mod pipeline;
pub(crate) mod prepared;
pub(crate) mod real_time;
pub(crate) mod replacement;
pub(crate) mod retained;
pub(crate) mod run_text;
pub(crate) mod running;
pub(crate) mod status;
pub(crate) mod suspects;
pub(crate) mod time_contract;
pub(crate) mod unselected_key;
pub(crate) mod view;
pub(crate) mod view_changes;
