//! Continuous queries in Rust.
//!
//! A [`Query`] has sources, operators and sinks, written as methods of its [`Stream`]s. [`Engine::start`] runs it. This
//! query counts words that arrive over a socket:
//!
//! ```
//! use tidemill::{Engine, Query, sources};
//!
//! # let (counted, counts) = std::sync::mpsc::channel();
//! let lines = sources::tcp_lines("127.0.0.1:0")?;
//! let address = lines.local_address().ok_or("the source does not listen")?;
//! let mut query = Query::new("word count");
//! query
//!     .read("lines", lines)
//!     .flat_map("line", "word", |(line,): (String,)| words(&line))
//!     .key_by("word")
//!     .scan("count", "word", ["word", "count"], |count: &mut u64, (word,): (String,)| { *count += 1; [(word, *count)] })
//!     .for_each("print", ["word", "count"], move |(word, count): (String, u64)| {
//!         println!("{word} {count}");
//! #       counted.send((word, count)).unwrap();
//!     });
//! let run = Engine::new().workers(2).start(query)?;
//! println!("send lines to {address}");
//! # std::io::Write::write_all(&mut std::net::TcpStream::connect(address)?, b"the tide\nthe\n")?;
//! # let counts: Vec<(String, u64)> = counts.iter().take(3).collect();
//! # assert_eq!(counts, [("the".into(), 1), ("tide".into(), 1), ("the".into(), 2)]);
//! run.stop()?;
//!
//! fn words(line: &str) -> Vec<(String,)> {
//!     line.split_whitespace().map(|word| (word.to_owned(),)).collect()
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This one computes a sum for each key, with its own operator:
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//! use tidemill::arrow::array::types::UInt32Type;
//! use tidemill::arrow::schema::{DataType, Field, Schema, SchemaRef};
//! use tidemill::*;
//!
//! #[derive(Default)]
//! struct RunningSum(BTreeMap<u32, u64>);
//!
//! impl KeyedOperator for RunningSum {
//!     fn output(&self, _input: &SchemaRef) -> Result<SchemaRef, Cause> {
//!         let field = |name: &str, data_type| Field::new(name, data_type, false);
//!         Ok(Arc::new(Schema::new(vec![field("key", DataType::UInt32), field("sum", DataType::UInt64)])))
//!     }
//! }
//!
//! impl Operator for RunningSum {
//!     fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
//!         let (keys, values) = (rows.column::<UInt32Type>(0), rows.column::<UInt32Type>(1));
//!         for row in 0..rows.len() {
//!             let sum = self.0.entry(keys[row]).or_default();
//!             *sum += u64::from(values[row]);
//!             output.port(0).push(rows.positions()[row], (keys[row], *sum));
//!         }
//!         Ok(())
//!     }
//!     fn snapshot(&self, writer: &mut SnapshotWriter) {
//!         self.0.write(writer);
//!     }
//!     fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
//!         self.0 = State::read(reader)?;
//!         Ok(())
//!     }
//! }
//!
//! let mut query = Query::new("sums");
//! let readings = query.rows::<(u32, u32)>("readings", ["key", "value"]);
//! let sums = readings.key_by("key").apply("running sum", RunningSum::default).collect("sums", 1000);
//! let run = Engine::new().workers(2).start(query)?;
//! run.input(&readings)?.push([(1, 10), (2, 20), (1, 30)])?;
//! run.finish()?;
//!
//! let sums: Vec<u64> = rows_of::<(u64,)>(&sums.read()?, "sum")?.into_iter().map(|(sum,)| sum).collect();
//! assert_eq!(sums, [10, 20, 40]);
//! # Ok::<(), tidemill::Error>(())
//! ```
//!
//! Results do not depend on the number of workers, as long as functions and operators depend only on their arguments.
//!
//! Below this interface is [`engine`]: a plan as data, durable queries, runs over several processes, split plans.
//! [`operators`] has the operators of which queries are made, and [`connect`] has the sources and sinks. With the
//! feature `sql`, the module `sql` runs queries written as text, which can call your own functions and operators, and the
//! module `service` is a database in a program: definitions that are kept, and queries that run by name.

pub mod aggregate;
mod build;
#[cfg(feature = "sql")]
mod embedded_sql;
mod empty_windows;
mod error;
mod event_time;
mod functions;
mod input;
mod join;
mod keyed;
mod names;
mod pushed_source;
mod query;
mod row;
mod row_source;
mod row_windows;
mod run;
pub mod sinks;
pub mod sources;
mod stream;
mod table;
mod top;
mod trailing;
mod value;
mod window;

pub use error::Error;
pub use input::Input;
pub use join::Within;
pub use keyed::{KeyedOperator, KeyedStream};
pub use names::Names;
pub use query::Query;
pub use row::{ReadColumn, Row, rows_of};
pub use row_source::{PushedSource, RowInput, RowSource};
pub use run::{Run, Summary};
pub use stream::Stream;
pub use table::Table;
pub use tidemill_connect as connect;
pub use tidemill_engine as engine;
pub use tidemill_engine::analysis::DeferrableServer;
pub use tidemill_engine::{
    Affinity, Cause, Cut, CycleOutput, CyclePolicy, Engine, Fault, Limits, Operator, Output, Policy, Polled,
    Pool, PoolError, PoolSettings, PoolStatus, Rows, Sink, SnapshotReader, SnapshotWriter, Source, State,
    Transform, Transformed, WhenEmpty, arrow,
};
pub use tidemill_operators as operators;
#[cfg(feature = "sql")]
pub use tidemill_service as service;
#[cfg(feature = "sql")]
pub use tidemill_sql as sql;
pub use top::Order;
pub use trailing::{Trailing, TrailingStream};
pub use value::{Scalar, Timestamp, Value};
pub use window::{Window, WindowedStream};
