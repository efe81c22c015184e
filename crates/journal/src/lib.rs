//! The durable part of Tidemill: the journals of a query's streams, the log of its cuts, its snapshots and commits, in
//! one folder ([`Journal`]). Decision 0013 lists its guarantees.
//!
//! ```text
//! <folder>/journal                              what this is, and the version of the format
//!          lock                                 held by the one process that runs the query
//!          streams/<stream>/<position>.segment  rows, one Arrow IPC batch per record
//!          streams/<stream>/opened              how far it was when it was last opened; so beside other segments
//!          cuts/<cycle>.segment                 cuts
//!          snapshots/<cycle>.snapshot           the state after a cycle
//!          commits                              the last committed cycle of each sink
//!          views/<sink>.rows                    the rows of a materialized view
//!          views/<sink>.chunks/<number>.chunk   those of its rows that do not change any more
//!          skips                                positions that are left out from now on
//!          epochs                               of a database: when it was opened, and which rows it has lost
//!          epoch                                of a query of a database: how many of these it has seen
//! ```
//!
//! A catalogue has its own folder, with `lock` and `definitions/<number>.segment` ([`CatalogJournal`]).
//!
//! Journals, cuts and definitions have the same format: segments of records with checksums. Numbers are little-endian.

mod catalog_journal;
mod clients;
mod commits;
mod current_query;
mod cut_journal;
mod cut_record;
pub mod database;
mod disk;
mod epochs;
mod failure;
mod file_reader;
mod frame;
pub mod inspect;
mod journal;
mod layout;
mod lengths;
mod log_reader;
mod map;
mod medium;
mod origins;
mod positions;
mod progress;
mod query;
mod record_log;
mod recovery;
mod replace;
mod replacement;
mod rows;
mod scan;
mod segment;
pub mod set_aside;
mod skips;
mod snapshots;
mod stored_chunks;
mod stored_rows;
mod stream;
mod stretches;

pub use catalog_journal::CatalogJournal;
pub use commits::CommitFile;
pub use cut_journal::{CutJournal, CutReader};
pub use disk::Disk;
pub use epochs::{Epoch, LostRows};
pub use journal::Journal;
pub use medium::{LockGuard, Medium, MediumFile};
pub use positions::Positions;
pub use progress::StreamProgress;
pub use query::beginning::BeganAt;
pub use skips::Skips;
pub use snapshots::{SnapshotFolder, StoredSnapshot};
pub use stored_chunks::{ChunkPlace, StoredChunks};
pub use stored_rows::StoredRowsFile;
pub use stream::{Record, StreamReader, StreamSettings, StreamWriter};
