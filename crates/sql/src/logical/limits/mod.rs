//! Limits of what one query may ask for: the size of its plan, of what a call makes of one row, and of constants.

pub(super) mod bounded_functions;
pub(super) mod bounded_operators;
pub(super) mod constant_checks;
pub(super) mod made_bytes;
pub(super) mod plan_size;
pub(super) mod query_size;
pub(super) mod result_size;
pub(super) mod value_size;
