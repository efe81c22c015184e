//! TLS over real sockets, with certificates made here.

use crate::sinks::support;
use crate::sockets::fixture;

mod connecting;
mod files;
mod http;
mod listening;
mod sinks;
