//! Continuous queries in SQL.

mod arguments;
mod catalog;
mod connectors;
mod definition;
mod dictionary;
mod discard;
mod duration;
mod explain;
mod expression;
mod extension;
mod finish;
mod foreign_aggregate;
mod limited;
mod logical;
mod own_aggregate;
mod prepared;
mod process;
mod projected;
mod refusal;
mod running;
mod session;
mod settings;
mod statement;
mod steps;
mod suggest;
mod text_error;
mod translate;
mod view;
mod windows;

pub use self::arguments::{Arguments, Value};
pub use self::definition::{DurableStream, Open, SourceDefinition};
pub use self::discard::Discard;
pub use self::duration::{parse_bytes, parse_duration_ns};
pub use self::explain::Explained;
pub use self::extension::{BoundOperator, Generator, TableOperator};

pub use self::prepared::{Output, Prepared};
pub use self::projected::Projected;
pub use self::running::{QueryStatus, RunningQuery};
pub use self::session::{Pipeline, Reply, Session};
pub use self::settings::Settings;
pub use self::statement::*;
pub use self::suggest::closest;
pub use self::text_error::{Names, TextError};
pub use self::view::ViewHandle;
pub use tidemill_operators::{Accumulator, Aggregate};
