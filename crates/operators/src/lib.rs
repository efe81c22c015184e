//! The operators that continuous queries are made of, one per file, on Arrow batches of any types.
//!
//! They know nothing of SQL. The planner of a query (the `sql` crate, or an application) gives each of them rows whose
//! columns are already computed, and assigns the roles of the columns.

pub mod changes;
pub mod count_windows;
pub mod event_order;
pub mod forward;
pub mod interval_join;
pub mod join;
pub mod keyed_function;
mod keys;
pub mod lookup;
mod normal;
pub mod over;
pub mod regions;
pub mod round_robin;
mod row_store;
pub mod scan;
pub mod sort;
mod stored_rows;
pub mod sub_stream;
pub mod table_join;
pub mod top;
pub mod until_end;
pub mod watermark;

pub mod aggregate;
mod arrow_bug;
pub mod combine;
pub mod cycle_aggregate;
pub mod empty_windows;
mod encoded_rows;
pub mod failed_results;
mod grouped;
pub mod groups;
mod hash;
mod panes;
mod partition_limit;
pub mod session_aggregate;
mod state;
mod state_rows;
pub mod table_aggregate;
pub mod window_aggregate;
pub mod window_spec;

pub use aggregate::{Accumulator, Aggregate, AggregateCall, AggregateSpec};
pub use combine::{Combine, combined_schema};
pub use cycle_aggregate::CycleAggregate;
pub use empty_windows::{EMPTY_WINDOWS_MAX, EmptyWindows};
pub use failed_results::FailedResults;
pub use groups::Groups;
pub use keyed_function::{KeyedFunction, KeyedRows};
pub use partition_limit::partition_limit;
pub use scan::Scan;
pub use session_aggregate::SessionAggregate;
pub use table_aggregate::TableAggregate;
pub use window_aggregate::WindowAggregate;
pub use window_spec::{SessionSpec, WINDOWS_OF_ROW_MAX, WindowSpec};
