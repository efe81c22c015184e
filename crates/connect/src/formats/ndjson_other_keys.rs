//! Keys of objects without a column, because the columns were inferred before they came.

use tidemill_core::source::Faults;

/// The most keys that are reported: objects may have any.
const REPORTED_MAX: usize = 8;

/// Reports each such key once.
#[derive(Default)]
pub(super) struct OtherKeys {
    reported: usize,
}

impl OtherKeys {
    /// Reports a key that has come for the first time.
    pub(super) fn report(&mut self, key: &str, place: impl Fn() -> String, faults: &mut Faults) {
        if self.reported == REPORTED_MAX {
            return;
        }
        self.reported += 1;
        let place = place();
        if self.reported == REPORTED_MAX {
            faults.notice(format!("{place}: more keys have no column, such as '{key}'; declare the columns"));
        } else {
            faults.notice(format!(
                "{place}: the key '{key}' has no column, because the columns were inferred before it came, so its \
                 values are left out; declare the columns to read it"
            ));
        }
    }
}
