//! Column names in formats that find columns by name.

use std::collections::HashSet;

use arrow_schema::Schema;
use tidemill_core::Cause;

/// Refuses columns with equal names, of which most readers would find only one. `format` names the format that cannot
/// hold them.
pub(crate) fn must_differ(schema: &Schema, format: &str) -> Result<(), Cause> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        None => Ok(()),
        Some(field) => Err(Cause::user(format!(
            "two columns are named '{}', which {format} cannot hold; rename one of them with AS: SELECT ... AS \
             another_name",
            field.name()
        ))),
    }
}
