//! The limit on what a call makes, for functions that know it only once they have made it.

use datafusion::common::{Result, exec_err};

use super::bounded_functions::{BATCH_BYTES_MAX, MADE_MAX, too_much_at_once};

/// Counts what a call of a function makes of a batch of rows.
pub(in crate::logical) struct MadeBytes {
    rows: usize,
    bytes: usize,
}

impl MadeBytes {
    /// Begins with a batch of this many rows.
    pub fn of(rows: usize) -> MadeBytes {
        MadeBytes { rows, bytes: 0 }
    }

    /// Counts what one row has become.
    ///
    /// # Errors
    /// If it, or all of them together, is more than a call may make.
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        if bytes as i128 > MADE_MAX {
            return exec_err!(
                "a JSON value of {bytes} bytes is too large: at most {MADE_MAX} are allowed per row"
            );
        }
        self.bytes += bytes;
        if self.bytes > BATCH_BYTES_MAX && self.rows > 1 {
            return Err(too_much_at_once("JSON", self.rows));
        }
        Ok(())
    }
}
