//! Gateways of a server: processes of their own, at which the rows of sources enter.
//!
//! A gateway is a runtime like that of the server, with the same definitions, and a clock, a journal and stores of its own. It runs
//! the parts of the views whose sources enter there. The server starts it, says what to run, and starts it again when it ends; what
//! it had is in its own journal. Whoever reads such a view asks each gateway for its part.

mod followed_view;
mod gateway_log;
mod replaced_part;
mod serve;
mod server_link;

pub use serve::serve_gateway;
