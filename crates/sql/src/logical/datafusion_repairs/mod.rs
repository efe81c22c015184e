//! Rewrites that mend what DataFusion computes otherwise than PostgreSQL, or computes wrongly. Each file names the fault.

pub(super) mod absent_rows;
pub(super) mod arithmetic;
pub(super) mod constant_in;
pub(super) mod counted_sets;
pub(super) mod cross_joins;
pub(super) mod dates;
pub(super) mod dependent;
pub(super) mod distinct_on;
pub(super) mod division;
pub(super) mod equal_keys;
pub(super) mod floats;
pub(super) mod interval_lengths;
pub(super) mod marks;
pub(super) mod opaque;
pub(super) mod order_insensitive;
pub(super) mod order_of_inputs;
pub(super) mod rounding;
pub(super) mod scalar_rows;
pub(super) mod series_rows;
pub(super) mod spelling;
pub(super) mod subquery_predicates;
pub(super) mod written_numbers;
