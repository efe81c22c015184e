//! A catalogue with the queries that run under it, and connections to both.
//!
//! A [`Runtime`] owns the catalogue of a database and its running queries by name. A [`Session`] is one connection: its
//! settings, its transaction, its cancellation. The command line is a client of both, and so is a program that
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

mod backoff;
mod catalog;
mod error;
mod gateway_process;
mod gateways;
mod lifecycle;
mod query_watcher;
mod runtime;
mod session;
pub mod sqlstate;
mod tables;

pub use self::catalog::log::{CatalogLog, FileCatalogLog, MemoryCatalogLog};
pub use self::catalog::record::{CatalogRecord, StartedQuery};
pub use self::catalog::user::{Role, UnknownRole, User};
pub use self::error::{Error, Refused};
pub use self::gateway_process::serve_gateway;
pub use self::gateways::{GatewayCommand, GatewaySettings, StatusTables};
pub use self::lifecycle::recovery::begun_queries;
pub use self::lifecycle::replacement::ReplacementOutcome;
pub use self::runtime::Runtime;
pub use self::runtime::cancellation::Cancellation;
pub use self::runtime::dataflow::{Dataflow, DataflowPart, PartKind};
pub use self::runtime::execution::{Execution, Phase, QueryEnd};
pub use self::runtime::past_query::past_query;
pub use self::runtime::plan_report::PlanReport;
pub use self::runtime::planned_query::Query;
pub use self::runtime::query_state::QueryState;
pub use self::runtime::report::{Observed, QueryReport};
pub use self::runtime::row_stream::RowStream;
pub use self::runtime::subscription::Subscription;
pub use self::runtime::unread::UnreadRows;
pub use self::session::{Changed, Reply, Session, TableSavepoint, chosen_columns};
