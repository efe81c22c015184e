//! What a version keeps in memory that its store does not have any more.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::fragment_version::FragmentVersion;
use crate::version::Version;

impl Version {
    /// The bytes of its chunks that the store has dropped or replaced since: they stay in memory only as long as this
    /// version, and others that have them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidemill_core::arrow::array::{Int64Array, RecordBatch};
    /// # use tidemill_store::{Retention, StoreConfig, StoreWriter};
    /// let values = Arc::new(Int64Array::from_iter_values(0..50_000)) as _;
    /// let rows = RecordBatch::try_from_iter([("value", values)])?;
    /// let retention = Retention { rows_max: 50_000, versions_max: 0, ..Retention::default() };
    /// let (mut writer, reader) = StoreWriter::new(StoreConfig { retention, ..StoreConfig::new(&rows.schema()) })?;
    /// writer.append(0, std::slice::from_ref(&rows))?;
    /// let version = reader.latest();
    /// assert_eq!(version.outlived_bytes(), 0);
    /// writer.append(1, &[rows])?;
    /// assert!(version.outlived_bytes() >= 8 * 50_000);
    /// assert_eq!(reader.latest().outlived_bytes(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outlived_bytes(&self) -> u64 {
        self.fragments.iter().map(FragmentVersion::outlived_bytes).sum()
    }
}

impl FragmentVersion {
    fn outlived_bytes(&self) -> u64 {
        let newest = self.shared.current.load();
        if Arc::ptr_eq(&newest, &self.published) {
            return 0;
        }
        let is_kept =
            |chunk: &Arc<Chunk>| newest.chunks.find(chunk.first).is_some_and(|kept| Arc::ptr_eq(kept, chunk));
        let outlived = self.chunks().iter().filter(|chunk| !is_kept(chunk));
        outlived.map(|chunk| chunk.bytes() as u64).sum()
    }
}
