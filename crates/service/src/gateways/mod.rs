//! The processes of a server's gateways, as the server sees them: started, told what to run, asked how they are, started again.

mod all;
mod control;
mod exclusive;
mod gateway;
mod tables;

pub(crate) use all::Gateways;
pub use all::{GatewayCommand, GatewaySettings};
pub(crate) use control::{Answer, Order, Replacement};
pub(crate) use exclusive::Exclusive;
pub(crate) use gateway::Gateway;
pub use tables::StatusTables;

/// What a gateway's folder contains.
pub(crate) const JOURNAL: &str = "journal";
pub(crate) const SOCKET: &str = "readers";
