//! All integration tests of this package in one binary, so that they are linked once.

mod published_numbers;
mod simulation;
