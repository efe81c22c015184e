//! Continuous queries in SQL.

mod arguments;
mod catalog;
mod connectors;
mod definition;
mod dictionary;
mod discard;
mod distinct_arguments;
mod duration;
mod explain;
mod expression;
mod extension;
mod finish;
mod first_rows;
mod foreign_aggregate;
mod fourier;
mod limited;
mod logical;
mod mending;
mod named_relations;
mod opened;
mod own_accumulator;
mod own_aggregate;
mod pair_condition;
mod pipeline;
mod planner;
mod prepared;
mod process;
mod projected;
mod refusal;
mod running;
mod settings;
mod split_profiles;
mod statement;
mod steps;
mod suggest;
mod suspects;
mod text_error;
mod translate;
mod view;
mod windows;

pub use self::arguments::{Arguments, Value};
pub use self::catalog::{Catalog, Definition};
pub use self::connectors::{
    DefinedSource, Formats, InputFormat, Liveness, OpenSink, OutputFormat, RowFormat, SinkConnector,
    SinkRequest, SinkUse, SourceConnector, SourceRequest,
};
pub use self::definition::{DurableStream, Open, SourceDefinition};
pub use self::discard::Discard;
pub use self::duration::{parse_bytes, parse_duration_ns};
pub use self::explain::Explained;
pub use self::extension::{BoundOperator, Generator, TableOperator};
pub use self::opened::Opened;
pub use self::pipeline::Pipeline;
pub use self::planner::{Planner, Reply};
pub use self::prepared::{Output, Prepared};
pub use self::projected::Projected;
pub use self::running::{QueryStatus, RunningQuery};
pub use self::settings::Settings;
pub use self::statement::declared::{
    ListedOption, OptionDefault, OptionDefinition, OptionError, OptionGroup, OptionKind, OptionOwner,
    OptionValues,
};
pub use self::statement::*;
pub use self::suggest::closest;
pub use self::text_error::{Names, TextError};
pub use self::view::ViewHandle;
pub use tidemill_operators::{Accumulator, Aggregate};
