//! Queries that replace the query of a folder. Both read the same streams.

use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_core::error::Cause;

use crate::current_query;
use crate::failure::failed;
use crate::inspect::{self, Listing};
use crate::journal::{Journal, VERSION};
use crate::layout;
use crate::replace::remove_unfinished;

impl Journal {
    /// What is in the folder, as of the query that it belongs to.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn list(&self) -> Result<Listing, Cause> {
        inspect::list_on(&*self.medium, &self.folder)
    }

    /// The journal for a query that is to replace the one that this is of: the same streams, and all else apart. What an earlier
    /// attempt has left is there; see [`Journal::give_up_replacement`].
    ///
    /// # Errors
    /// If the disk is full or fails.
    ///
    /// ```
    /// # use tidemill_journal::Journal;
    /// let folder = tempfile::tempdir()?;
    /// let journal = Journal::open(folder.path())?;
    /// journal.set_query("SELECT 1")?;
    /// let replacement = journal.replacement()?;
    /// replacement.set_query("SELECT 2")?;
    /// assert_eq!(journal.query()?.as_deref(), Some("SELECT 1"));
    /// replacement.take_over()?;
    /// drop((journal, replacement));
    /// assert_eq!(Journal::open(folder.path())?.query()?.as_deref(), Some("SELECT 2"));
    /// # Ok::<(), tidemill_core::Cause>(())
    /// ```
    pub fn replacement(&self) -> Result<Journal, Cause> {
        let number = self.number.saturating_add(1);
        let own = layout::query_folder(&self.folder, number);
        let snapshots = layout::snapshots(&own);
        self.medium
            .create_folder(&snapshots)
            .map_err(|error| failed("create the folder", &snapshots, error))?;
        remove_unfinished(&*self.medium, &own)?;
        remove_unfinished(&*self.medium, &snapshots)?;
        Ok(Journal {
            medium: self.medium.clone(),
            folder: self.folder.clone(),
            own,
            number,
            is_replacement: true,
            lock: self.lock.clone(),
            streams: Arc::clone(&self.streams),
            cuts: Mutex::default(),
        })
    }

    /// Whether it is for a query that is to replace another one.
    pub fn is_replacement(&self) -> bool {
        self.is_replacement
    }

    /// Removes what a query has left that was to replace the one that this is of; false if there is none. Its description goes
    /// first: a replacement that has one has all the rest.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn give_up_replacement(&self) -> Result<bool, Cause> {
        let Some(number) = current_query::next(&*self.medium, &self.folder)? else { return Ok(false) };
        let (queries, own) = (layout::queries(&self.folder), layout::query_folder(&self.folder, number));
        let described = self.medium.remove(&layout::query(&own)).is_ok();
        let synced = if described { self.medium.sync_folder(&own) } else { Ok(()) };
        let removed = synced.and_then(|()| self.medium.remove_folder(&own));
        let removed = removed.and_then(|()| self.medium.sync_folder(&queries));
        removed.map(|()| true).map_err(|error| failed("remove", &own, error))
    }

    /// From now on, durably, the folder belongs to the query of this journal. What the query before it has left is removed.
    /// Older programs refuse the folder: they would look for the parts of the first query.
    ///
    /// # Errors
    /// If the disk is full or fails. The folder then belongs to one query or the other.
    pub fn take_over(&self) -> Result<(), Cause> {
        self.raise_version(VERSION)?;
        current_query::set(&*self.medium, &self.folder, self.number)?;
        current_query::remove_replaced(&*self.medium, &self.folder, self.number)
    }
}
