//! The built-in connectors, one file for each outside system.

mod blackhole;
mod client_limits;
mod command;
mod dead_letters;
mod directory;
mod fetched;
pub(super) mod file;
mod generator;
pub(super) mod generators;
mod http;
mod http_posts;
pub(super) mod journal;
mod kafka;
mod key;
mod line_protocol;
mod postgres;
mod push;
mod socket;
mod socket_sinks;
mod socket_sources;
mod standard_streams;
mod sync;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::ConnectorTable;
use crate::generator::Generator;

/// Adds them.
pub(super) fn add_all(table: &mut ConnectorTable) {
    table.add_source("file", Arc::new(file::FileRows));
    table.add_source("stdin", Arc::new(standard_streams::StandardInputRows));
    table.add_source("tcp", Arc::new(socket_sources::TcpRows));
    table.add_source("unix", Arc::new(socket_sources::UnixRows));
    table.add_source("udp", Arc::new(socket_sources::UdpRows));
    table.add_source("http", Arc::new(http::HttpRows));
    table.add_source("line_protocol", Arc::new(line_protocol::ByScheme));
    table.add_source("postgres", Arc::new(postgres::Table));
    table.add_source("kafka", Arc::new(kafka::Topic));
    table.add_source("push", Arc::new(push::PushedRows));
    table.add_source("table", Arc::new(push::TableChanges));
    table.add_source("journal", Arc::new(journal::Journal));
    add_generators(table, &generators::built_in_generators());
    table.add_sink("file", Arc::new(file::FileRows));
    table.add_sink("directory", Arc::new(directory::Directory));
    table.add_sink("postgres", Arc::new(postgres::Table));
    table.add_sink("stdout", Arc::new(standard_streams::StandardOutputRows));
    table.add_sink("tcp", Arc::new(socket_sinks::TcpReaders));
    table.add_sink("unix", Arc::new(socket_sinks::UnixReaders));
    table.add_sink("http", Arc::new(http_posts::HttpPosts));
    table.add_sink("command", Arc::new(command::CommandInput));
    table.add_sink("kafka", Arc::new(kafka::Topic));
    table.add_sink("blackhole", Arc::new(blackhole::Blackhole));
}

/// Adds the connector `generator`, or replaces it by one that offers these.
pub(crate) fn add_generators(table: &mut ConnectorTable, generators: &BTreeMap<String, Arc<Generator>>) {
    table.add_source("generator", Arc::new(generator::ByFunction { generators: generators.clone() }));
}
