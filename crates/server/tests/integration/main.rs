//! All integration tests of this package in one binary, so that they are linked once.

mod clients;
mod console;
mod copy;
mod dashboards;
mod driver;
mod functions;
mod hostile;
mod http;
mod http_hostile;
mod http_query;
mod idle_transactions;
mod insert;
mod large_answers;
mod many_connections;
mod otlp;
mod prepared;
mod psql;
mod psycopg;
mod readers;
mod sessions;
mod shown_stores;
mod subscribe;
mod support;
mod tls;
mod users;
mod websocket;
