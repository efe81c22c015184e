//! Sinks that hand rows to others: requests over HTTP, and programs.

#[path = "../tls/authority.rs"]
mod authority;
mod commands;
#[path = "../ports/mod.rs"]
mod ports;
mod receiver;
mod requests;
#[path = "../sinks/support.rs"]
#[expect(dead_code, reason = "shared with the tests of other sinks")]
mod support;
