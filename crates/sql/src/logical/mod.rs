//! Turns a query's syntax into an optimised logical plan, with DataFusion.

mod adaptive_regions;
mod arithmetic;
mod batch;
mod bounded_functions;
mod bounded_operators;
mod call_arguments;
mod calls;
mod constant_checks;
mod constant_in;
mod count_windows;
mod cross_joins;
mod dates;
mod distinct_floats;
mod distinct_on;
mod division;
mod duration_totals;
mod durations;
mod empty_windows;
mod exact_constants;
mod exact_total;
mod exact_totals;
mod expression_type;
mod extreme_of_other;
mod finite;
mod floats;
pub(crate) mod fourier;
mod fourier_functions;
mod functions;
mod interval_lengths;
mod interval_texts;
mod last_of_key;
mod lift;
mod like_escape;
mod list_literal;
mod local_times;
mod map_call;
mod marked;
mod matched_groups;
mod moving_floats;
mod names;
mod nested_in;
mod opaque;
mod operator_call;
mod optimize;
mod order_insensitive;
mod place_functions;
mod plan_error;
mod postgres_words;
mod process;
mod process_call;
mod provider;
mod read_names;
mod read_patterns;
mod refuse;
mod refused_clause;
mod region_functions;
mod relations;
mod result_size;
mod rounded_casts;
mod rounding;
mod scaled_intervals;
mod select_before;
mod series_rows;
mod spelling;
mod split_call;
mod split_stream;
mod syntax;
pub(crate) mod time_casts;
mod time_parts;
mod time_patterns;
mod time_units;
mod time_zones;
mod total_kind;
mod truncated_times;
mod type_names_of_values;
mod unary;
mod untyped_texts;
mod value_size;
mod value_texts;
mod vectors;
mod window_assign;
pub(crate) mod windows;
mod written_numbers;

pub(crate) use adaptive_regions::RegionsNode;
pub(crate) use batch::{for_batch, with_distinct_keys};
pub(crate) use bounded_functions::{BATCH_BYTES_MAX, too_much_at_once};
pub(crate) use bounded_operators::with_bounds_in;
pub(crate) use constant_checks::check_constants;
pub(crate) use count_windows::CountWindowsNode;
pub(crate) use exact_totals::exact_total;
pub(crate) use finite::is_finite;
pub(crate) use floats::{as_key, with_one_nan_in};
pub(crate) use functions::{
    Functions, WINDOW_START, interval_ns, length_ns, reads_clock, window_start, with_now,
};
pub(crate) use last_of_key::{Key, LastOfKey};
pub(crate) use names::{header, same_name, shown, shown_rows, shown_text};
pub(crate) use operator_call::OperatorCall;
pub(crate) use optimize::{fold, optimize};
pub(crate) use place_functions::{number_arguments, with_point};
pub use plan_error::Names;
pub(crate) use process::{Postfilter, ProcessMark, ProcessNode};
pub(crate) use provider::Provider;
pub(crate) use read_names::ReadNames;
pub(crate) use refuse::{check_independent_of_cycles, check_order, check_repeatable, is_repeatable};
pub(crate) use split_stream::{LatticeSplitters, SplitChoice, SplitShape, SplitStream, SplitWindow};
pub(crate) use window_assign::{WindowAssign, WindowKind};

use datafusion::logical_expr::LogicalPlan;

/// A node of ours, if it is one of this type.
pub(crate) fn node_of<N: 'static>(plan: &LogicalPlan) -> Option<&N> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    extension.node.as_any().downcast_ref()
}
