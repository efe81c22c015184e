//! Rows in memory by time, place and key, with a version for each cycle.
//!
//! A [`StoreWriter`] stores the rows of each cycle and publishes a [`Version`]; [`StoreReader`]s read versions from any
//! thread. A version does not change, and stays as long as someone reads it. Readers and the writer never wait for each
//! other.
//!
//! Rows are kept in *chunks*: immutable columns, with the range of times and the box of points in each. A small open chunk
//! takes the newest rows, in pieces. An index leads from each key to its newest row, and each row to the one before with
//! the same key. So a reader finds rows by key, time and place without looking into other chunks.
//!
//! The rows can be divided among [fragments](Fragmentation), each with a writer on a thread of its own. Readers see one
//! store: all fragments at the same cycle, and the rows in the same order. A [`StoreSink`] writes both kinds.
//!
//! Rows that come and go are a changelog ([`Contents::Changes`]): a row that is taken back stays in its chunk, with the cycle
//! that ended it, until no version shows it. An index leads the writer from the hash of a whole row to its copies.
//!
//! ```
//! use std::sync::Arc;
//! use tidemill_core::arrow::array::{Float64Array, Int64Array, RecordBatch};
//! use tidemill_store::{Selection, StoreConfig, StoreWriter};
//!
//! let numbers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as _;
//! let coordinates = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as _;
//! let cars = |vids, times, x, y| {
//!     let columns = [("vid", numbers(vids)), ("at", numbers(times)), ("x", coordinates(x)), ("y", coordinates(y))];
//!     RecordBatch::try_from_iter(columns)
//! };
//! let first = cars(vec![7, 8], vec![10, 11], vec![0.0, 5.0], vec![0.0, 5.0])?;
//! let config =
//!     StoreConfig { key: Some(vec![0]), time: Some(1), point: Some([2, 3]), ..StoreConfig::new(&first.schema()) };
//! let (mut writer, reader) = StoreWriter::new(config)?;
//! writer.append(0, &[first])?;
//! writer.append(1, &[cars(vec![7], vec![20], vec![1.0], vec![1.0])?])?;
//!
//! let now = reader.latest();
//! let last_of_seven = now.newest(&[numbers(vec![7])], &Selection::default())?;
//! assert_eq!(last_of_seven.batches[0], cars(vec![7], vec![20], vec![1.0], vec![1.0])?);
//! let nearest = now.nearest((4.0, 4.0), 1, &Selection::default())?;
//! assert_eq!(nearest.batches[0], cars(vec![8], vec![11], vec![5.0], vec![5.0])?);
//! assert_eq!(reader.as_of_cycle(0)?.read()?.num_rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod area;
mod changes;
mod chunk;
mod chunk_fields;
mod chunk_files;
mod chunk_list;
mod columns;
mod config;
mod follower;
mod fragment_version;
mod fragmentation;
mod fragments;
mod gather;
mod grid;
mod kept_chunks;
mod key_index;
mod keys;
mod marks;
mod named_chunks;
mod nearest;
mod outlived;
mod reader;
pub mod remote;
mod retention;
mod scan;
mod search;
mod selection;
mod sink;
mod snapshot;
mod store_memory;
mod store_state;
mod stored_again;
mod stored_changes;
mod strict_limits;
mod turns;
mod version;
mod version_cell;
mod weights;
mod writer;

pub use area::{Area, distance};
pub use chunk_files::{ChunkFiles, ChunkPlace};
pub use config::{Contents, Retention, StoreConfig};
pub use follower::{Change, Follower};
pub use fragmentation::{FragmentBy, Fragmentation};
pub use fragments::FragmentedWriter;
pub use named_chunks::named_chunks;
pub use reader::StoreReader;
pub use selection::{SelectedRows, Selection, Work};
pub use sink::StoreSink;
pub use store_state::{FragmentStatus, StoreStatistics};
pub use turns::{ReaderTurn, ReaderTurns};
pub use version::{Pause, Version};
pub use writer::StoreWriter;
