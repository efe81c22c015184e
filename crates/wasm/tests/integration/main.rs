//! All integration tests of this package in one binary, so that they are linked once.

mod batches;
mod hostile;
mod rows;
mod states;
