//! Queries over rows in a store: what their conditions say about time, place and key, so that only the chunks with such
//! rows are read.

mod as_of;
mod at_gateways;
mod conditions;
mod divider;
mod found;
mod nearest;
mod one_cycle;
mod searched;

pub(crate) use as_of::{earlier_rows, pinned, same_versions, same_versions_of, versions_at};
pub(crate) use at_gateways::part_versions;
pub(crate) use found::{FoundRows, with_found_rows};
pub(crate) use searched::Reader;
