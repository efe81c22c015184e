//! Tables of a PostgreSQL database. [`PostgresSource`] reads one, once or at intervals. [`PostgresSink`] writes rows by
//! binary COPY, one transaction for a range of cycles, with the number of the last cycle in the same transaction.

mod column;
mod copy;
mod database;
mod failure;
mod numeric;
mod prepared;
mod reading;
mod server_operation;
mod session;
mod settings;
mod sink;
mod source;
mod statements;
mod stop;
mod tls;
mod writer;

pub use reading::PostgresRows;
pub use settings::PostgresSinkSettings;
pub use sink::PostgresSink;
pub use source::{PostgresSource, PostgresSourceSettings};
pub use stop::PostgresStop;
