//! All integration tests of this package in one binary, so that they are linked once.

mod counters_document;
mod delegating;
