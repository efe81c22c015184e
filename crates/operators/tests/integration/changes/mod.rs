//! Operators over changing relations against naive evaluators over maps from row to weight.
#![allow(missing_docs)]

mod join;
mod relation;
mod runs;
mod upserts;
