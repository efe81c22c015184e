//! TLS over real sockets, with certificates made here.

mod authority;
#[path = "../sockets/fixture.rs"]
#[expect(dead_code, reason = "shared with the tests of sockets without TLS")]
mod fixture;
#[path = "../sinks/support.rs"]
#[expect(dead_code, reason = "shared with the tests of sinks without TLS")]
mod support;

mod connecting;
mod files;
mod http;
mod listening;
mod sinks;
