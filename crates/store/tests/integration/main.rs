//! All integration tests of this package in one binary, so that they are linked once.

mod fragments;
mod oracle;
mod pauses;
mod readers;
mod remote;
