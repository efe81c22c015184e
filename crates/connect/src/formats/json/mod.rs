//! JSON as rows: how deep it is nested, and objects as rows of columns.

pub(super) mod depth;
pub(super) mod rows;
