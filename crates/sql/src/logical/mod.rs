//! Turns a query's syntax into an optimised logical plan, with DataFusion.

mod batch;
mod casts;
mod clock_conditions;
mod datafusion_repairs;
mod expression_type;
mod finite;
pub(crate) mod functions;
mod limits;
mod moments;
mod names;
mod nodes;
mod optimize;
mod plan_error;
mod postgres_syntax;
mod provider;
mod read_names;
mod refuse;
mod refused_clause;
pub(crate) mod time_units;
mod totals;
mod unary;

pub(crate) use batch::{for_batch, with_distinct_keys};
pub(crate) use casts::rounded_casts::rounded_for;
pub(crate) use casts::text_casts::{is_read as is_read_of_text, values_of_texts};
pub(crate) use casts::time_casts::check_numbers;
pub(crate) use casts::value_texts::texts;
pub(crate) use clock_conditions::{check_clock_conditions, check_clock_filters};
pub(crate) use datafusion_repairs::equal_keys::batch_rules;
pub(crate) use datafusion_repairs::floats::{as_key, with_one_nan_in};
pub(crate) use datafusion_repairs::interval_lengths::without_lengths;
pub(crate) use finite::is_finite;
pub(crate) use functions::hop_starts::hop_starts;
pub(crate) use functions::place_functions::{number_arguments, points, with_point};
pub use functions::times::listed_zones::{ListedZone, listed_zones};
pub(crate) use functions::{
    Functions, WINDOW_START, interval_ns, length_ns, reads_clock, window_start, with_now,
};
pub(crate) use limits::bounded_functions::{BATCH_BYTES_MAX, too_much_at_once};
pub(crate) use limits::bounded_operators::with_bounds_in;
pub(crate) use limits::constant_checks::check_constants;
pub(crate) use moments::{KEPT_TRUE, moments};
pub(crate) use names::{header, same_name, shown, shown_rows, shown_text};
pub(crate) use nodes::adaptive_regions::RegionsNode;
pub(crate) use nodes::as_of_the_row::AsOfTheRow;
pub(crate) use nodes::count_windows::CountWindowsNode;
pub(crate) use nodes::last_of_key::{Key, LastOfKey};
pub(crate) use nodes::operator_call::OperatorCall;
pub(crate) use nodes::process::{Postfilter, ProcessMark, ProcessNode};
pub(crate) use nodes::split_stream::{LatticeSplitters, SplitChoice, SplitShape, SplitStream, SplitWindow};
pub(crate) use nodes::weighted_rows::WeightedRows;
pub(crate) use nodes::window_assign::{WindowAssign, WindowKind};
pub(crate) use optimize::{fold, optimize};
pub use plan_error::Names;
pub(crate) use provider::Provider;
pub(crate) use read_names::ReadNames;
pub(crate) use refuse::{check_independent_of_cycles, check_order, check_repeatable, is_repeatable};
pub(crate) use totals::exact_totals::exact_total;

use datafusion::logical_expr::LogicalPlan;

/// A node of ours, if it is one of this type.
pub(crate) fn node_of<N: 'static>(plan: &LogicalPlan) -> Option<&N> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    extension.node.as_any().downcast_ref()
}
