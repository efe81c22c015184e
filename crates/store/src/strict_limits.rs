//! The limits of a strict store, which refuses what is too much.

use tidemill_core::Cause;

use crate::config::{Contents, Retention, StoreConfig};
use crate::store_state::StoreStatistics;

/// Checks the limits of a strict store against what it holds.
pub(crate) fn check_strict(config: &StoreConfig, held: &StoreStatistics) -> Result<(), Cause> {
    let Retention { bytes_max, rows_max, is_strict, .. } = config.retention;
    if is_strict && held.bytes > bytes_max {
        return Err(too_many_bytes(held.bytes, bytes_max));
    }
    if is_strict && held.rows > rows_max as u64 {
        Err(too_many_rows(config.contents, held.rows, rows_max))
    } else {
        Ok(())
    }
}

pub(crate) fn too_many_bytes(bytes: usize, bytes_max: usize) -> Cause {
    Cause::resource(format!(
        "the rows need {bytes} bytes in memory, but at most {bytes_max} are allowed; keep fewer or shorter values"
    ))
}

pub(crate) fn too_many_rows(contents: Contents, rows: u64, rows_max: usize) -> Cause {
    Cause::resource(match contents {
        Contents::AllRows | Contents::Changes => format!(
            "the result has {rows} rows in memory, but at most {rows_max} are allowed; raise max_result_rows, or write \
             to a file"
        ),
        Contents::LastOfKey => format!(
            "the table has more than {rows_max} keys; raise max_result_rows, or group by fewer values"
        ),
    })
}
