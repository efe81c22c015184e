//! JSON in texts: made of values, taken apart and changed.

pub(super) mod built;
pub(super) mod edited;
pub(in crate::logical) mod kind;
pub(super) mod operators;
pub(super) mod read;
mod texts;
