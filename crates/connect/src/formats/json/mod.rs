//! JSON: how deep it is nested, objects as rows of columns, and values that are looked into.

pub(super) mod depth;
pub(super) mod rows;
pub(super) mod tree;
