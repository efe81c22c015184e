//! Expressions and what is made of them, compiled for batches.

pub(crate) mod compiled;
pub(crate) mod dictionary;
pub(crate) mod filter_project;
pub(crate) mod or_null;
pub(crate) mod unnested;
pub(crate) mod window_function;
