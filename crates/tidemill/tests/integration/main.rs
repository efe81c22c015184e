//! All integration tests of this package in one binary, so that they are linked once.

mod durable;
mod operators;
#[cfg(feature = "postgres")]
mod postgres;
mod pushing;
mod refusals;
mod sinks;
#[cfg(feature = "sql")]
mod sql;
mod streams;
