//! A store out of a snapshot, whatever the number of fragments of the one that was written.

use std::sync::Arc;

use tidemill_core::{Cause, SnapshotReader, State};

use super::fragment_config;
use super::fragmented_writer::{FragmentedWriter, VERSION};
use crate::chunk_fields::damaged;
use crate::chunk_files::ChunkFiles;
use crate::config::StoreConfig;
use crate::fragmentation::{FRAGMENTS_MAX, Fragmentation};
use crate::reader::StoreReader;
use crate::selection::Selection;
use crate::snapshot::{self, WHOLE_VERSION};
use crate::store_state::{FragmentsState, StoreStatistics};
use crate::version_cell::VersionCell;
use crate::weights::weighted;
use crate::writer::StoreWriter;

/// The write side of a store that was restored.
pub(crate) enum Restored {
    One(StoreWriter),
    Fragments(FragmentedWriter),
}

/// Reads what [`StoreWriter::snapshot`] or [`FragmentedWriter::snapshot`] has written. If its rows were divided otherwise, those
/// of the newest version are divided again, and earlier ones cannot be read any more.
pub(crate) fn restored(
    config: StoreConfig,
    reader: &mut SnapshotReader<'_>,
    files: &mut dyn ChunkFiles,
) -> Result<(Restored, StoreReader), Cause> {
    let version = reader.version_of(&[WHOLE_VERSION, VERSION, snapshot::VERSION])?;
    if version != VERSION {
        let whole = StoreConfig { fragments: None, ..config.clone() };
        let (writer, handle) = StoreWriter::restore_rows(whole, (version, reader), files)?;
        return match config.fragments {
            None => Ok((Restored::One(writer), handle)),
            Some(_) => divided_again(config, &handle, writer.latest),
        };
    }
    let (count, by) = (reader.u32()?, reader.text()?);
    if !(1..=FRAGMENTS_MAX).contains(&count) {
        return Err(damaged("it has an impossible number of fragments"));
    }
    let (next, latest): (u64, i64) = State::read(reader)?;
    let fragment =
        |_| StoreWriter::restore(fragment_config(&config, count), reader, files).map(|(writer, _)| writer);
    let writers = (0..count).map(fragment).collect::<Result<Vec<_>, Cause>>()?;
    let cycle = writers.first().and_then(StoreWriter::newest_cycle);
    let is_one_version = |writer: &StoreWriter| writer.newest_cycle() == cycle && writer.latest == latest;
    if !writers.iter().all(is_one_version) {
        return Err(damaged("its fragments are of different cycles"));
    }
    let is_divided_so = |fragments: &Fragmentation| fragments.count == count && fragments.by.text() == by;
    if config.fragments.as_ref().is_some_and(is_divided_so) {
        let (writer, handle) = FragmentedWriter::of(config, writers, (next, latest))?;
        return Ok((Restored::Fragments(writer), handle));
    }
    let old = StoreConfig { fragments: None, ..config.clone() };
    divided_again(config, &reader_of(old, &writers), latest)
}

/// Reads these fragments together.
fn reader_of(config: StoreConfig, fragments: &[StoreWriter]) -> StoreReader {
    let fragments: Vec<_> = fragments.iter().map(|writer| writer.shared.clone()).collect();
    let published: Vec<_> = fragments.iter().map(|fragment| fragment.current.load()).collect();
    let shared = fragments[0].clone();
    let whole = FragmentsState { config, fragments, current: VersionCell::new(published) };
    StoreReader { shared, whole: Some(Arc::new(whole)) }
}

/// A store with the rows of another's newest version, in the same order. `latest` is the largest time of all rows that it had.
fn divided_again(
    config: StoreConfig,
    old: &StoreReader,
    latest: i64,
) -> Result<(Restored, StoreReader), Cause> {
    let newest = old.latest();
    let held = old.statistics();
    let empty = |config: StoreConfig| -> Result<StoreWriter, Cause> {
        let (mut writer, _) = StoreWriter::new(config)?;
        writer.raise_latest(latest);
        // What was before the newest version is gone.
        writer.gone = newest.cycle().and_then(|cycle| cycle.checked_sub(1));
        Ok(writer)
    };
    let input = config.input();
    let rows = newest.select(&Selection::default())?.batches;
    let rows = rows.iter().map(|rows| weighted(rows, &input)).collect::<Result<Vec<_>, Cause>>()?;
    let Some(fragmentation) = &config.fragments else {
        let mut writer = empty(config)?;
        count_dropped(&mut writer, &held);
        if let Some(cycle) = newest.cycle() {
            writer.append(cycle, &rows)?;
        }
        let handle = writer.reader();
        return Ok((Restored::One(writer), handle));
    };
    let count = fragmentation.count;
    let fragments = (0..count).map(|_| empty(fragment_config(&config, count)));
    let mut fragments = fragments.collect::<Result<Vec<_>, Cause>>()?;
    if let Some(first) = fragments.first_mut() {
        count_dropped(first, &held);
    }
    let (mut writer, handle) = FragmentedWriter::of(config, fragments, (0, latest))?;
    if let Some(cycle) = newest.cycle() {
        writer.append(cycle, &rows)?;
        writer.publish()?;
    }
    Ok((Restored::Fragments(writer), handle))
}

/// Rows that were dropped stay counted.
fn count_dropped(writer: &mut StoreWriter, held: &StoreStatistics) {
    writer.rows_dropped = held.rows_dropped;
    writer.chunks_dropped = held.chunks_dropped;
}
