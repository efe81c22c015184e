//! Sinks against the real thing: files, full disks, pipes, sockets; and against what they were given.
#![cfg(feature = "tables")]

mod changed_files;
mod children;
mod closed_output;
mod dead_letters;
mod directories;
mod encoders;
mod files;
mod full_disk;
mod killed;
mod lost_bytes;
mod memory;
mod round_trip;
mod socket_client;
mod socket_server;
pub mod support;
mod tables;
