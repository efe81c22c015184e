//! Where complete chunks are kept: they do not change any more, so each is written once.

use tidemill_core::Cause;

/// Where a chunk is kept, and what its bytes must be. Only who keeps it knows more about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The file that it is in. What no snapshot names any more can be removed.
    pub file: u64,
    /// Where it begins there.
    pub offset: u64,
    /// The length of its bytes.
    pub length: u64,
    /// Their checksum.
    pub checksum: u32,
}

/// Keeps the complete chunks of a store beside its snapshots.
///
/// ```
/// use tidemill_core::Cause;
/// use tidemill_store::{ChunkFiles, ChunkPlace};
///
/// /// Each chunk is a file of its own, in memory.
/// #[derive(Default)]
/// struct InMemory(Vec<Vec<u8>>);
///
/// impl ChunkFiles for InMemory {
///     fn write(&mut self, bytes: &[u8]) -> Result<ChunkPlace, Cause> {
///         self.0.push(bytes.to_vec());
///         Ok(ChunkPlace { file: self.0.len() as u64 - 1, offset: 0, length: bytes.len() as u64, checksum: 0 })
///     }
///
///     fn sync(&mut self) -> Result<(), Cause> {
///         Ok(())
///     }
///
///     fn read(&mut self, place: &ChunkPlace) -> Result<Vec<u8>, Cause> {
///         let bytes = self.0.get(place.file as usize);
///         bytes.cloned().ok_or_else(|| Cause::operation("a chunk is missing"))
///     }
/// }
///
/// let mut files = InMemory::default();
/// let place = files.write(b"rows")?;
/// assert_eq!(files.read(&place)?, b"rows");
/// # Ok::<(), Cause>(())
/// ```
pub trait ChunkFiles {
    /// Writes a chunk. It need not be durable before the next [`sync`](ChunkFiles::sync).
    ///
    /// # Errors
    /// If it cannot be kept. Then nothing that was written since the last sync is.
    fn write(&mut self, bytes: &[u8]) -> Result<ChunkPlace, Cause>;

    /// Makes durable what was written since the last sync.
    ///
    /// # Errors
    /// As [`write`](ChunkFiles::write).
    fn sync(&mut self) -> Result<(), Cause>;

    /// The bytes of a chunk.
    ///
    /// # Errors
    /// If they are missing or damaged.
    fn read(&mut self, place: &ChunkPlace) -> Result<Vec<u8>, Cause>;
}
