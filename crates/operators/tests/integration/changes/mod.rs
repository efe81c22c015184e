//! Operators over changing relations against naive evaluators over maps from row to weight.
#![allow(missing_docs)]

mod aggregate;
mod join;
mod relation;
mod runs;
mod set_operation;
mod temporal_filter;
mod top;
mod upserts;
mod windowed;
