//! Trip grouping as a Tidemill application, written as a user would write it: on the public API of
//! `tidemill-engine` only.
//!
//! People ask for trips, and are prepared to wait some minutes. Those who go from about the same place to about the
//! same place, at about the same time, share a ride. The heuristic is the one of Zeitler's Paper III, section 3.3.

pub mod bench;
pub mod criteria;
pub mod extra_cost;
pub mod generator;
pub mod grouping;
pub mod hour_tally;
pub mod operators;
pub mod partitioner;
pub mod pictures;
pub mod query;
pub mod request;
mod result_file;
pub mod ride_file;
pub mod ride_run;
pub mod ride_sharing;
pub mod run;
pub mod savings;
pub mod schema;
pub mod share;
pub mod share_file;
pub mod source;
pub mod text;
pub mod tour;
pub mod trip_file;
pub mod trip_reader;
