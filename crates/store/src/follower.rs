//! Follows a store: the rows that it has, and then what each cycle changes.

use arrow_array::RecordBatch;
use tidemill_core::Cause;

use crate::chunk::Chunk;
use crate::config::Contents;
use crate::fragment_version::FragmentVersion;
use crate::keys::KeyEquality;
use crate::marks::Mark;
use crate::reader::StoreReader;
use crate::selection::{Selection, Work};
use crate::version::{StoredRow, Version};

/// What a cycle has changed: the rows that were there before and are there no more, and those that have come. A row that a
/// table has replaced is among both, once with its old and once with its new values.
#[derive(Clone, Debug)]
pub struct Change {
    /// The cycle after which the store was so.
    pub cycle: u64,
    /// The rows that are gone.
    pub removed: Vec<RecordBatch>,
    /// The rows that have come.
    pub added: Vec<RecordBatch>,
}

/// Follows a store, a cycle at a time and without a gap: first all rows that it has, then what each cycle changes. It holds
/// no rows between two looks, and the writer does not know of it.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch};
/// use tidemill_store::{Contents, Follower, StoreConfig, StoreWriter};
///
/// let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as _;
/// let rows = |keys, values| RecordBatch::try_from_iter([("k", column(keys)), ("v", column(values))]);
/// let first = rows(vec![1, 2], vec![10, 20])?;
/// let config = StoreConfig { key: Some(vec![0]), contents: Contents::LastOfKey, ..StoreConfig::new(&first.schema()) };
/// let (mut writer, reader) = StoreWriter::new(config)?;
/// let mut follower = Follower::new(&reader);
/// writer.append(3, &[first.clone()])?;
/// writer.append(4, &[rows(vec![2], vec![21])?])?;
/// let content = follower.next_change()?.expect("there are rows");
/// assert_eq!((content.cycle, content.added.len()), (4, 1));
///
/// writer.append(5, &[rows(vec![2], vec![22])?])?;
/// let change = follower.next_change()?.expect("there is a change");
/// assert_eq!((change.cycle, &change.removed[0]), (5, &rows(vec![2], vec![21])?));
/// assert_eq!(change.added[0], rows(vec![2], vec![22])?);
/// assert!(follower.next_change()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follower {
    reader: StoreReader,
    progress: Progress,
}

/// What a follower has given.
enum Progress {
    Nothing,
    /// Another follower has given everything up to this cycle.
    ByAnother(u64),
    All(Given),
}

/// The version up to which a follower has given changes.
#[derive(Clone)]
struct Given {
    cycle: u64,
    /// The rows of each fragment: the number of the first one, and one past that of the last.
    rows: Vec<(u64, u64)>,
}

impl Follower {
    /// Follows the store from the rows that it has at the first look.
    pub fn new(reader: &StoreReader) -> Follower {
        Follower { reader: reader.clone(), progress: Progress::Nothing }
    }

    /// Continues behind a cycle up to which another follower has given all changes. The store is the same one, or was restored
    /// from a snapshot since, and has each cycle as before.
    pub fn after(reader: &StoreReader, cycle: u64) -> Follower {
        Follower { reader: reader.clone(), progress: Progress::ByAnother(cycle) }
    }

    /// The store.
    pub fn reader(&self) -> &StoreReader {
        &self.reader
    }

    /// The cycle up to which it has given all changes; `None`: it has given nothing yet.
    pub fn cycle(&self) -> Option<u64> {
        match &self.progress {
            Progress::Nothing => None,
            Progress::ByAnother(cycle) => Some(*cycle),
            Progress::All(given) => Some(given.cycle),
        }
    }

    /// What the next cycle that changed something has changed; the first time, all rows. `None`: there is none yet. It does
    /// not wait.
    ///
    /// # Errors
    /// [`Cause::resource`] if so many cycles have come since the last look that the store no longer keeps the version
    /// after the last one given. The changes in between cannot be known any more.
    pub fn next_change(&mut self) -> Result<Option<Change>, Cause> {
        loop {
            match self.change()? {
                // Its rows were replaced by equal ones, or what it added was taken back in it.
                Some(change) if change.removed.is_empty() && change.added.is_empty() => {}
                change => return Ok(change),
            }
        }
    }

    /// What the next cycle has changed that had rows.
    fn change(&mut self) -> Result<Option<Change>, Cause> {
        let newest = self.reader.latest();
        let given = match &self.progress {
            Progress::Nothing => return self.begin(newest),
            Progress::ByAnother(cycle) => match given_until(&newest, *cycle)? {
                Some(given) => given,
                None => return Ok(None),
            },
            Progress::All(given) => given.clone(),
        };
        let mut marks = Vec::with_capacity(newest.fragments.len());
        for (fragment, (first, end)) in newest.fragments.iter().zip(&given.rows) {
            let kept = &fragment.published.marks;
            let Some(mark) = kept.first_after(given.cycle) else {
                self.progress = Progress::All(given);
                return Ok(None);
            };
            let has_gap = fragment.published.gone.is_some_and(|gone| {
                // The rows of the version that was given are needed too, if there were any.
                let is_given_gone = kept.oldest().is_none_or(|oldest| oldest.cycle > given.cycle);
                gone > given.cycle || is_given_gone && end > first
            });
            if has_gap {
                return Err(behind(given.cycle, &mark));
            }
            marks.push(mark);
        }
        let Some(cycle) = marks.first().map(|mark| mark.cycle) else { return Ok(None) };
        let change = change(&newest, &given, cycle, &marks)?;
        let rows = marks.iter().map(|mark| (mark.first, mark.end)).collect();
        self.progress = Progress::All(Given { cycle, rows });
        Ok(Some(change))
    }

    fn begin(&mut self, newest: Version) -> Result<Option<Change>, Cause> {
        let published = newest.fragments.first().and_then(|fragment| fragment.published.newest_cycle);
        let Some(cycle) = published else { return Ok(None) };
        let added = newest.select(&Selection::default())?.batches;
        let rows = newest.fragments.iter().map(|fragment| (fragment.first, fragment.end)).collect();
        self.progress = Progress::All(Given { cycle, rows });
        Ok(if added.is_empty() { None } else { Some(Change { cycle, removed: Vec::new(), added }) })
    }
}

/// Which rows a store had after a cycle; `None`: it has not reached it yet.
///
/// # Errors
/// [`Cause::resource`] if that is no longer known.
fn given_until(newest: &Version, cycle: u64) -> Result<Option<Given>, Cause> {
    let mut rows = Vec::with_capacity(newest.fragments.len());
    for fragment in newest.fragments.iter() {
        let published = &fragment.published;
        if published.newest_cycle.is_none_or(|newest| newest < cycle) {
            return Ok(None);
        }
        rows.push(
            match (published.marks.last_before(|mark| mark.cycle <= cycle), published.marks.oldest()) {
                (Some(mark), _) => (mark.first, mark.end),
                (None, Some(oldest)) if published.gone.is_some() => return Err(behind(cycle, oldest)),
                // No rows had come by then.
                (None, _) => (0, 0),
            },
        );
    }
    Ok(Some(Given { cycle, rows }))
}

/// The first row and the end of a part of a fragment, given its mark and the same of the rows before.
type Bounds = dyn Fn(&Mark, (u64, u64)) -> (u64, u64);

/// What this cycle has changed since another. The marks say which rows each fragment has after it.
fn change(newest: &Version, before: &Given, cycle: u64, marks: &[Mark]) -> Result<Change, Cause> {
    let rows = |cycle: u64, bounds: &Bounds| {
        let of_mark = marks.iter().zip(&before.rows).map(|(mark, before)| bounds(mark, *before));
        let fragment = |(fragment, (first, end)): (&FragmentVersion, (u64, u64))| FragmentVersion {
            cycle,
            first,
            end,
            ..fragment.clone()
        };
        let fragments = newest.fragments.iter().zip(of_mark).map(fragment).collect();
        Version { whole: newest.whole.clone(), fragments }
    };
    let added = rows(cycle, &|mark, (_, end)| (end.max(mark.first), mark.end));
    let (removed, added) = match newest.config().contents {
        Contents::AllRows => {
            let dropped = rows(cycle, &|mark, (first, end)| (first, mark.first.min(end)));
            let all = Selection::default();
            (dropped.select(&all)?.batches, added.select(&all)?.batches)
        }
        Contents::Changes => changed(&added, marks)?,
        Contents::LastOfKey => replaced(&rows(before.cycle, &|_, before| before), &added)?,
    };
    Ok(Change { cycle, removed, added })
}

fn behind(cycle: u64, next: &Mark) -> Cause {
    Cause::resource(format!(
        "the reader has fallen behind: it has the changes up to cycle {cycle}, and those of before cycle {} are no \
         longer kept; read faster, or keep more versions: WITH (retain_versions = 100000)",
        next.cycle
    ))
}

/// The rows of a changelog that a cycle has taken back, and those that have come. `stored` has the latter and those that were stored
/// again.
fn changed(stored: &Version, marks: &[Mark]) -> Result<(Vec<RecordBatch>, Vec<RecordBatch>), Cause> {
    let (mut removed, mut added) = (Vec::new(), stored.clone());
    for ((fragment, mark), added) in stored.fragments.iter().zip(marks).zip(&mut added.fragments) {
        added.first = added.first.max(mark.came);
        for number in mark.taken.iter().flat_map(|taken| taken.iter()) {
            let chunk = fragment.chunks().find(*number);
            let chunk = chunk.ok_or_else(|| Cause::bug("a row that was taken back is not kept"))?;
            removed.push(StoredRow { chunk, row: (number - chunk.first) as usize });
        }
    }
    let all = Selection::default();
    let removed = stored.gather_in_batches(removed, &all, &mut |_| Ok(()))?;
    Ok((removed, added.select(&all)?.batches))
}

/// The rows of a table that new ones replace, and the new ones. Rows that were only stored again are in neither.
fn replaced(before: &Version, new: &Version) -> Result<(Vec<RecordBatch>, Vec<RecordBatch>), Cause> {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let all = Selection::default();
    for (before, new) in before.fragments.iter().zip(&new.fragments) {
        let mut shown = Vec::new();
        new.visit(&all, &mut Work::default(), &mut |_| Ok(()), |stored| shown.push(stored))?;
        for stored in shown {
            match previous(before, stored)? {
                Some(old) if is_same(old, stored) => {}
                old => {
                    removed.extend(old);
                    added.push(stored);
                }
            }
        }
    }
    let (removed, added) = (before.gather(removed, &all)?, new.gather(added, &all)?);
    Ok((Vec::from_iter(removed), Vec::from_iter(added)))
}

/// The row with the same key that a version shows.
fn previous<'a>(version: &'a FragmentVersion, stored: StoredRow<'a>) -> Result<Option<StoredRow<'a>>, Cause> {
    let Some(hasher) = &version.shared.hasher else { return Ok(None) };
    let key = hasher.key_of(&stored.chunk.rows);
    let mut next = stored.chunk.before(stored.chunk.first + stored.row as u64);
    while let Some(number) = next.filter(|number| *number >= version.first) {
        let Some(chunk) = version.chunks().find(number) else { return Ok(None) };
        let row = (number - chunk.first) as usize;
        if number < version.end && version.shows(chunk, row) {
            let equality = KeyEquality::new(hasher, &hasher.key_of(&chunk.rows), &key)?;
            if equality.is_equal(row, stored.row) {
                return Ok(Some(StoredRow { chunk, row }));
            }
        }
        next = chunk.before(number);
    }
    Ok(None)
}

fn is_same(one: StoredRow<'_>, other: StoredRow<'_>) -> bool {
    // In a fragment, the last column is the number of the row, which is not one of its values.
    let shown = |chunk: &Chunk| chunk.rows.num_columns() - usize::from(chunk.numbers.is_some());
    let row = |stored: StoredRow<'_>| stored.chunk.rows.slice(stored.row, 1);
    row(one).columns()[..shown(one.chunk)] == row(other).columns()[..shown(other.chunk)]
}
