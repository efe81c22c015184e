//! A version of a store: its rows after some cycle. It does not change.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use crate::chunk::Chunk;
use crate::config::StoreConfig;
use crate::fragment_version::FragmentVersion;
use crate::selection::{Selection, Work};
use crate::store_state::FragmentsState;

/// The rows of a store after some cycle. It does not change, and the rows stay as long as it exists.
#[derive(Clone)]
pub struct Version {
    /// What the fragments share if there are several.
    pub(crate) whole: Option<Arc<FragmentsState>>,
    /// The fragments; at least one.
    pub(crate) fragments: Vec<FragmentVersion>,
}

/// What a search calls after each chunk that it has looked into, and before it copies rows: it may wait, or end the search. It is
/// given about how many bytes the search holds, or will hold at once. Rows that are shared with the store count nothing.
pub type Pause<'a> = dyn FnMut(usize) -> Result<(), Cause> + 'a;

/// A row of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    pub chunk: &'a Arc<Chunk>,
    pub row: usize,
}

impl StoredRow<'_> {
    /// Orders the rows of a store: those of a table by when their keys first came, any other as they came.
    pub fn order(&self) -> u64 {
        self.chunk.order(self.row)
    }
}

impl Version {
    /// The cycle after which these were the rows; `None` before the first.
    pub fn cycle(&self) -> Option<u64> {
        // All fragments are at the same one.
        self.fragments.first().and_then(FragmentVersion::cycle)
    }

    /// What the store holds.
    pub fn config(&self) -> &StoreConfig {
        match &self.whole {
            Some(whole) => &whole.config,
            None => &self.fragments[0].shared.config,
        }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.config().schema.clone()
    }

    /// How many rows had been stored by then, also those that were dropped.
    pub fn end(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.end).sum()
    }

    /// How many rows were stored for it; those of a table that were replaced since count as well.
    pub fn stored_rows(&self) -> u64 {
        self.fragments.iter().map(FragmentVersion::stored_rows).sum()
    }

    /// The fragments that may have rows which meet these conditions.
    pub(crate) fn asked(&self, selection: &Selection) -> &[FragmentVersion] {
        let by_key = || {
            let fragmentation = self.config().fragments.as_ref()?;
            let key = selection.key.as_ref().filter(|_| fragmentation.is_by_key())?;
            fragmentation.fragment_of(key)
        };
        let is_whole = self.fragments.len() == 1;
        match (!is_whole).then(|| selection.fragment.or_else(by_key)).flatten() {
            Some(only) => self.fragments.get(only..=only).unwrap_or_default(),
            None => &self.fragments,
        }
    }

    pub(crate) fn work(&self, asked: &[FragmentVersion]) -> Work {
        Work {
            fragments: self.fragments.len(),
            fragments_asked: asked.len(),
            chunks: self.fragments.iter().map(FragmentVersion::chunks_of_version).sum(),
            rows: self.stored_rows(),
            ..Work::default()
        }
    }
}
