//! A catalogue with the queries that run under it, and connections to both.
//!
//! A [`Runtime`] owns the catalogue of a database and its running queries by name. A [`Session`] is one connection: its
//! settings, its prepared statements, its cancellation. The command line is a client of both, and so is a program that
//! wants queries beside each other.
//!
//! ```
//! use tidemill_service::{Reply, Runtime, Session};
//! use tidemill_sql::{Planner, parse};
//!
//! let runtime = Runtime::new(Planner::new());
//! let mut session = Session::new(&runtime);
//! let script = "CREATE MATERIALIZED VIEW parity AS
//!     SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1";
//! for statement in parse(script, "example").unwrap() {
//!     session.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
//! }
//! let pipeline = session.pipeline().unwrap().expect("there is a view");
//! runtime.start("parity", pipeline, false).unwrap();
//! runtime.wait("parity").unwrap();
//!
//! // Another connection reads what the view has.
//! let mut other = Session::new(&runtime);
//! let statement = parse("SELECT n FROM parity ORDER BY odd", "example").unwrap().remove(0);
//! let Ok(Reply::Rows(rows)) = other.execute(&statement) else { panic!("a view is answered at once") };
//! assert_eq!(rows.num_rows(), 2);
//! ```

mod altering;
mod announcement;
mod batch_queue;
mod cancellation;
mod catalog_log;
mod catalog_record;
mod catching_up;
mod change;
mod dataflow;
mod defining;
mod entry;
mod error;
mod execution;
mod gateway_changes;
mod gateway_processes;
mod gateways;
mod kept_catalog;
mod kept_plans;
mod live_sources;
mod outputs;
mod past_query;
mod patience;
mod plan_report;
mod planned_query;
mod query;
mod query_at_gateways;
mod query_folder;
mod query_state;
mod reader_priority;
mod reader_threads;
mod readers;
mod recovery;
mod replacement;
mod report;
mod row_stream;
mod runtime;
mod session;
mod session_plans;
mod session_turns;
mod starting;
mod stopping;
mod subscribing;
mod subscription;
mod superfluous;
mod transaction;
mod unread;
mod user;
mod users;

pub use self::cancellation::Cancellation;
pub use self::catalog_log::{CatalogLog, FileCatalogLog, MemoryCatalogLog};
pub use self::catalog_record::{CatalogRecord, StartedQuery};
pub use self::dataflow::{Dataflow, DataflowPart, PartKind};
pub use self::error::Error;
pub use self::execution::{Execution, Phase, QueryEnd};
pub use self::gateway_processes::{GatewayCommand, GatewaySettings, StatusTables};
pub use self::gateways::serve_gateway;
pub use self::past_query::past_query;
pub use self::plan_report::PlanReport;
pub use self::planned_query::Query;
pub use self::query_state::QueryState;
pub use self::replacement::Inherited;
pub use self::report::{Observed, QueryReport};
pub use self::row_stream::RowStream;
pub use self::runtime::Runtime;
pub use self::session::{Reply, Session};
pub use self::subscription::Subscription;
pub use self::unread::UnreadRows;
pub use self::user::{Role, UnknownRole, User};
