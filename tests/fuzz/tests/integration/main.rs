//! All integration tests of this package in one binary, so that they are linked once.

mod journal;
mod line_protocol;
mod snapshot;
mod text;
