//! How far the journal of another pipeline was read.

use tidemill_core::Cause;
use tidemill_core::fields::{Fields, PutFields, TakeFields};
use tidemill_journal::inspect::Records;

use super::settings::JournalSourceSettings;

/// The version of an offset's record.
const VERSION: u8 = 1;

/// The end of the last record that was read, and its checksum: after a power failure, a journal may have lost its last
/// records and have others at their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub end: u64,
    pub checksum: u32,
}

impl Reached {
    /// As a durable query keeps it: a version, a position and a checksum.
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.put_u64(self.end);
        bytes.put_u32(self.checksum);
        bytes
    }

    /// What [`encode`](Reached::encode) has written.
    ///
    /// # Errors
    /// If it is of another version.
    pub fn decode(bytes: &[u8]) -> Result<Reached, Cause> {
        let mut fields = Fields(bytes);
        match (fields.u8(), fields.u64(), fields.u32()) {
            (Ok(VERSION), Ok(end), Ok(checksum)) if fields.0.is_empty() => Ok(Reached { end, checksum }),
            _ => Err(Cause::user(
                "the journal holds offsets of another version of Tidemill; continue with the version that wrote \
                 them, or start with a new journal",
            )),
        }
    }

    /// The records that follow.
    ///
    /// # Errors
    /// If they were removed, or if the journal is not the one that was read.
    pub fn continued(self, journal: &JournalSourceSettings) -> Result<Records, Cause> {
        let Some(last) = self.end.checked_sub(1) else { return journal.records(0) };
        let mut records = match journal.records(last) {
            Ok(records) => records,
            // The last record may be the newest that was removed.
            Err(cause) => return journal.records(self.end).map_err(|_| journal.explained(cause)),
        };
        let found = records.next().transpose().map_err(|cause| journal.explained(cause))?;
        let end = found.map(|record| record.start + record.rows.num_rows() as u64);
        if (end, records.checksum()) == (Some(self.end), Some(self.checksum)) {
            Ok(records)
        } else {
            Err(Cause::user(format!(
                "{}: it does not have the rows that this query has read up to position {}: it is another journal, \
                 or has lost its last rows in a power failure. To begin again, start with a new journal",
                journal.place(),
                self.end
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded_and_nothing_else() {
        let reached = Reached { end: 1 << 40, checksum: 77 };
        let bytes = reached.encode();
        assert_eq!(Reached::decode(&bytes).unwrap(), reached);
        let other_version = [&[2][..], &bytes[1..]].concat();
        for broken in [&bytes[..12], &[], &other_version, &[&bytes[..], &[0]].concat()] {
            assert!(Reached::decode(broken).unwrap_err().to_string().contains("another version"));
        }
    }
}
