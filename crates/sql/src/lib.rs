//! Continuous queries in SQL.

mod aggregates;
mod arguments;
mod catalog;
mod connectors;
mod cost_profiles;
mod defined_functions;
mod expressions;
mod extension;
mod gateway_place;
mod generator;
mod limit_reached;
mod log_span;
mod logical;
mod planner;
mod planning_limits;
mod pool_definition;
mod profiles;
mod query;
mod refusal;
mod relations;
mod settings;
mod split_profiles;
mod stand_ins;
mod statement;
mod store;
mod text;
mod translate;
mod turns;
mod why;

pub use self::arguments::{Arguments, Value};
pub use self::catalog::{
    Catalog, ClientTable, Definition, FailedDefinition, ListedFunction, ListedKey, ListedRelation, NewTable,
    NewTableColumn,
};
pub use self::connectors::discard_sink::DiscardSink;
pub use self::connectors::{
    DefinedSource, Formats, InputFormat, Liveness, OpenSink, OutputFormat, RowFormat, SinkConnector,
    SinkRequest, SinkUse, SourceConnector, SourceRequest,
};
pub use self::extension::{BoundOperator, TableOperator};
pub use self::gateway_place::GatewayPlace;
pub use self::generator::Generator;
pub use self::log_span::query_span;
pub use self::logical::{ListedZone, Names, listed_zones};
pub use self::planner::{
    CachedPlan, EmbeddedQueries, EmbeddedQuery, EmbeddedSource, PlanStream, Planner, Reply, Surroundings,
};
pub use self::query::explain::Explained;
pub use self::query::fitted_rows::fitted_rows;
pub use self::query::left_out::LeftOut;
pub use self::query::opened::Opened;
pub use self::query::past::{PastPipeline, PastRange, PastResults};
pub use self::query::pipeline::Pipeline;
pub use self::query::prepared::{Output, Prepared};
pub use self::query::running::RunningQuery;
pub use self::query::state_of::{STATE_OF, rows_of, state_of};
pub use self::query::status::{QueryObserver, QueryStatus};
pub use self::query::view::ViewHandle;
pub use self::query::view_changes::ViewChanges;
pub use self::relations::gateway_rows::GatewayRows;
pub use self::relations::projected::Projected;
pub use self::relations::source_changes::SourceChanges;
pub use self::relations::source_definition::{DurableStream, OpenSource, SourceDefinition};
pub use self::settings::Settings;
pub use self::stand_ins::{OpenDecoder, ReplacedSource, StandInSources, StandIns};
pub use self::statement::declared::{
    DeclaredValues, ListedOption, OptionDefault, OptionDefinition, OptionError, OptionGroup, OptionKind,
    OptionOwner, OptionValues,
};
pub use self::statement::*;
pub use self::text::duration::{parse_bytes, parse_duration_ns};
pub use self::text::{MAX_SCRIPT_BYTES, Problem, Script, ScriptLocation, Span, TextError, masked};
pub use self::translate::RowBatches;
pub use self::turns::{Turn, Turns};
pub use self::why::{WhyQuestion, Witness, why};
pub use tidemill_connect::closest;
pub use tidemill_connect::formats::value_text;
pub use tidemill_connect::memory::PushTarget;
pub use tidemill_operators::{Accumulator, Aggregate};
pub use tidemill_store::{
    ChunkPlace as StoredChunkPlace, FragmentStatus, ReaderTurn, ReaderTurns, StoreStatistics, named_chunks,
};
