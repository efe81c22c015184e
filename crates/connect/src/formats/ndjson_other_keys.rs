//! Keys of objects without a column, because the columns were inferred before they came.

use std::collections::HashSet;

use arrow_schema::Schema;
use tidemill_core::source::Faults;

use super::outermost_keys;

/// The most keys that are reported: objects may have any.
const REPORTED_MAX: usize = 8;

/// Reports each such key once.
pub(super) struct OtherKeys {
    /// Columns in small letters, and keys that are known.
    known: HashSet<String>,
    reported: usize,
}

impl OtherKeys {
    pub(super) fn new(columns: &Schema) -> OtherKeys {
        let names =
            columns.fields().iter().flat_map(|field| [field.name().clone(), field.name().to_lowercase()]);
        OtherKeys { known: names.collect(), reported: 0 }
    }

    pub(super) fn look(&mut self, line: &[u8], place: impl Fn() -> String, faults: &mut Faults) {
        if self.reported == REPORTED_MAX {
            return;
        }
        for key in outermost_keys(line) {
            let Ok(key) = std::str::from_utf8(key) else { continue };
            if self.known.contains(key) || self.known.contains(&key.to_lowercase()) || key.contains('\\') {
                continue;
            }
            self.known.insert(key.to_owned());
            self.reported += 1;
            let place = place();
            if self.reported == REPORTED_MAX {
                faults.notice(format!(
                    "{place}: more keys have no column, such as '{key}'; declare the columns"
                ));
                return;
            }
            faults.notice(format!(
                "{place}: the key '{key}' has no column, because the columns were inferred before it came, so its \
                 values are left out; declare the columns to read it"
            ));
        }
    }
}
