//! What the tests of several packages share. Nothing in it is part of the product, and nothing in it shares code with what it
//! judges.
//!
//! | module | gives a test |
//! |---|---|
//! | [`authority`] | certificates, valid and expired |
//! | [`duckdb`] | a second opinion on SQL |
//! | [`etcd`] | an etcd server of its own |
//! | [`fault_disk`] | a disk that fails, fills up and loses power |
//! | [`file_server`] | an HTTP server of files |
//! | [`line_protocol`] | a slow reader of line protocol, to compare with |
//! | [`noise`] | text that does not compress |
//! | [`ports`] | ports that nobody else takes |
//! | [`postgres`] | a PostgreSQL server of its own |
//! | [`random`] | random numbers by a seed |
//! | [`request_head`] | the head of a request over HTTP |
//! | [`sender`] | a client that posts until it has an answer |

pub mod authority;
pub mod duckdb;
pub mod etcd;
pub mod fault_disk;
pub mod file_server;
pub mod line_protocol;
pub mod noise;
pub mod ports;
pub mod postgres;
pub mod random;
pub mod request_head;
pub mod sender;
