//! Queries as clients of PostgreSQL write them to read its catalogue.

pub(super) mod calls;
pub(super) mod columns;
pub(super) mod empty;
pub(super) mod format;
pub(super) mod lists;
pub(super) mod made;
pub(super) mod names;
pub(super) mod object_names;
pub(super) mod query;
pub(super) mod selects;
pub(super) mod setting_calls;
pub(super) mod unions;
