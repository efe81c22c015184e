//! Files that say how long a log was, so that one that has lost its end is noticed.

pub(crate) mod catalog_length;
pub(crate) mod opening;
