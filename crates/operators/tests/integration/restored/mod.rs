//! An operator that continues from its snapshot, and the rows that it shows as its state.
#![allow(missing_docs)]

use tidemill_core::error::Cause;
use tidemill_core::{Operator, SnapshotReader, SnapshotWriter, StateRows};

/// Another operator, restored from the snapshot of this one. It must have read all of it.
pub fn restored(
    operator: &dyn Operator,
    make: impl Fn() -> Box<dyn Operator>,
) -> Result<Box<dyn Operator>, Cause> {
    let mut writer = SnapshotWriter::default();
    operator.snapshot(&mut writer);
    let bytes = writer.finish();
    let mut restored = make();
    let mut reader = SnapshotReader::new(&bytes)?;
    restored.restore(&mut reader)?;
    assert!(reader.is_empty(), "restore left bytes of the snapshot");
    Ok(restored)
}

/// What an operator holds, as its restored snapshot shows it: the lines of each kind of rows.
pub fn held_lines(
    operator: &dyn Operator,
    make: impl Fn() -> Box<dyn Operator>,
    lines: impl Fn(&StateRows) -> Vec<String>,
) -> Vec<(&'static str, Vec<String>)> {
    let restored = restored(operator, make).unwrap();
    let kinds = restored.state_rows().unwrap().expect("it shows its state");
    kinds.iter().map(|kind| (kind.kind, lines(kind))).collect()
}
