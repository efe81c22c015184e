//! A table of a PostgreSQL database: rows by binary COPY, one transaction for a range of cycles, with the number of the
//! last cycle in the same transaction.

mod column;
mod copy;
mod failure;
mod numeric;
mod prepared;
mod session;
mod settings;
mod sink;
mod statements;
mod stop;
mod writer;

pub use settings::PostgresSinkSettings;
pub use sink::PostgresSink;
pub use stop::PostgresStop;
