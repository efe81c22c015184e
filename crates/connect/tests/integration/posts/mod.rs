//! Sinks that hand rows to others: requests over HTTP, and programs.

mod commands;
mod receiver;
mod requests;
use crate::sinks::support;
