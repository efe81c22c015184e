//! Records of a source that could not be read, in full, for whoever keeps them.

/// The text of a record, or the row that it became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordContent {
    /// The first bytes of the record as it came.
    Text(Vec<u8>),
    /// The row as a JSON object: the record could be read, or was never text.
    Row(String),
}

/// A record that could not be read or may not come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Where it stands, such as `clicks.csv, line 7`.
    pub place: String,
    /// What is wrong with it.
    pub reason: String,
    /// What it says.
    pub content: RecordContent,
    /// Whether the record is longer than what is kept of it.
    pub is_cut: bool,
}

/// Bad records since they were last taken, within a bound.
///
/// ```
/// use tidemill_core::BadRecords;
/// let mut records = BadRecords::default();
/// records.add("clicks.csv, line 7".into(), "'x' is not a BIGINT".into(), b"x,1");
/// assert_eq!((records.kept().len(), records.left_out()), (1, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadRecords {
    kept: Vec<BadRecord>,
    bytes: usize,
    left_out: u64,
}

impl BadRecords {
    /// The most bytes that are kept of one record.
    pub const RECORD_BYTES_MAX: usize = 16 * 1024;
    /// The most bytes that are kept of all records together; those beyond are only counted.
    pub const BYTES_MAX: usize = 16 << 20;

    /// Keeps a record of text, or its beginning.
    pub fn add(&mut self, place: String, reason: String, text: &[u8]) {
        let kept = &text[..text.len().min(Self::RECORD_BYTES_MAX)];
        let (content, is_cut) = (RecordContent::Text(kept.to_vec()), kept.len() < text.len());
        self.keep(BadRecord { place, reason, content, is_cut });
    }

    /// Keeps a row that has no text, or that may not come in. `row` is a JSON object. It is cut like a text if it is too
    /// long.
    pub fn add_row(&mut self, place: String, reason: String, row: String) {
        if row.len() > Self::RECORD_BYTES_MAX {
            self.add(place, reason, row.as_bytes())
        } else {
            self.keep(BadRecord { place, reason, content: RecordContent::Row(row), is_cut: false });
        }
    }

    fn keep(&mut self, record: BadRecord) {
        let content = match &record.content {
            RecordContent::Text(text) => text.len(),
            RecordContent::Row(row) => row.len(),
        };
        let bytes = size_of::<BadRecord>() + record.place.len() + record.reason.len() + content;
        if self.bytes + bytes > Self::BYTES_MAX {
            self.left_out += 1
        } else {
            self.bytes += bytes;
            self.kept.push(record);
        }
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: BadRecords) {
        self.left_out += other.left_out;
        other.kept.into_iter().for_each(|record| self.keep(record));
    }

    /// The records that are kept.
    pub fn kept(&self) -> &[BadRecord] {
        &self.kept
    }

    /// How many more there were.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.left_out == 0
    }

    /// Changes the records that are kept.
    pub fn change(&mut self, change: impl FnMut(&mut BadRecord)) {
        self.kept.iter_mut().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_what_is_not_is_counted() {
        let mut records = BadRecords::default();
        let long = vec![b'x'; BadRecords::RECORD_BYTES_MAX + 1];
        (0..2000).for_each(|line| records.add(format!("line {line}"), "bad".into(), &long));
        let kept = records.kept().len();
        assert!(kept < 2000 && kept * BadRecords::RECORD_BYTES_MAX <= BadRecords::BYTES_MAX);
        assert_eq!(records.left_out() as usize, 2000 - kept);
        assert!(records.kept().iter().all(|record| record.is_cut));
        let mut merged = BadRecords::default();
        merged.merge(records.clone());
        merged.merge(records);
        assert_eq!((merged.kept().len(), merged.left_out() as usize), (kept, 4000 - kept));
    }

    #[test]
    fn a_row_is_kept_as_a_row_and_one_that_is_too_long_as_a_cut_text() {
        let mut records = BadRecords::default();
        records.add_row("a".into(), "b".into(), "{}".into());
        records.add_row("a".into(), "b".into(), "x".repeat(BadRecords::RECORD_BYTES_MAX + 1));
        assert_eq!(records.kept()[0].content, RecordContent::Row("{}".into()));
        assert!(matches!(&records.kept()[1].content, RecordContent::Text(text) if text.len() == 16384));
    }
}
