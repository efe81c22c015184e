//! The HTTP source against real clients: honest, hasty, slow, and hostile ones.
#![cfg(feature = "tables")]

mod client;
mod many;
mod refused;
mod written;
