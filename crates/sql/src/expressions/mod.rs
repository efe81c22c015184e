//! Expressions and what is made of them, compiled for batches.

pub(crate) mod compiled;
pub(crate) mod dictionary;
pub(crate) mod filter_project;
pub(crate) mod pair_condition;
pub(crate) mod unnested;
pub(crate) mod window_function;
