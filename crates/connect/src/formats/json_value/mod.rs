//! One JSON text: its pieces, and its value, which is looked into and changed.

pub(super) mod edited;
pub(super) mod scanner;
pub(super) mod tree;
