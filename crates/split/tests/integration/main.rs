//! All integration tests of this package in one binary, so that they are linked once.

mod against_naive;
mod broadcast;
mod sharing;
mod spatial;
