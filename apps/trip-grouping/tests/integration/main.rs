//! All integration tests of this package in one binary, so that they are linked once.

mod bench;
mod generator;
mod grouping;
mod partitioner;
mod pictures;
mod query;
mod reference;
mod ride_query;
mod ride_run;
mod ride_sharing;
mod run;
mod tour;
