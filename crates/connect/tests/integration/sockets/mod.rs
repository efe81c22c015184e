//! Sources with sockets, against real ones: many senders, slow, broken and vanishing ones, and servers that
//! go.
#![cfg(feature = "tables")]

mod client;
pub mod fixture;
mod listen;
mod queue;
mod read_ahead;
mod senders;
mod stamps;
mod tokens;
mod udp;
mod unix;
