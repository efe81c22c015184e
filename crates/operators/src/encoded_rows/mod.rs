//! Rows in Arrow's row format, for state in which rows are looked up, counted and ordered.

mod codec;
mod ordered;
mod table;

pub(crate) use codec::{Encoded, RowBytes, RowCodec};
pub(crate) use ordered::{OrderedRows, read_groups, write_groups};
pub(crate) use table::{Interned, RowTable};
