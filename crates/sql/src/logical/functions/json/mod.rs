//! JSON in texts: made of values, and taken apart.

pub(super) mod built;
pub(super) mod operators;
pub(super) mod read;
mod texts;
