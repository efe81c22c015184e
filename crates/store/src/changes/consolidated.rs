//! What the changes of a cycle come to.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use tidemill_core::Cause;

use super::row_equality::RowEquality;

/// A row that a cycle adds or takes back, and how many copies of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedRow {
    pub hash: u64,
    /// Where it is: the batch, and the row there.
    pub batch: u32,
    pub row: u32,
    pub count: u64,
}

/// What a cycle changes. No row is among both, and none is taken back twice.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The rows that were there before.
    pub taken: Vec<ChangedRow>,
    /// The rows that come, in order.
    pub added: Vec<ChangedRow>,
}

/// Adds up the changes of a cycle. The last column of each batch is the weight. Of copies that come and are taken back in the
/// cycle, the first ones stay.
///
/// # Errors
/// [`Cause::bug`] if the weights of a row cannot be added up.
pub(crate) fn consolidated(rows: &RowEquality, batches: &[RecordBatch]) -> Result<Changes, Cause> {
    let (mut taken, mut added) = (Vec::new(), Vec::new());
    for (batch, changes) in batches.iter().enumerate() {
        let hashes = rows.hashes(changes)?;
        let weights = weights_of(changes)?;
        for (row, (hash, weight)) in hashes.into_iter().zip(weights).enumerate() {
            let to = if *weight < 0 { &mut taken } else { &mut added };
            if *weight != 0 {
                let (batch, row) = (batch as u32, row as u32);
                to.push(ChangedRow { hash, batch, row, count: weight.unsigned_abs() });
            }
        }
    }
    if taken.is_empty() {
        return Ok(Changes { taken, added });
    }
    let is_equal = |one: &ChangedRow, other: &ChangedRow| {
        let at = |changed: &ChangedRow| (&batches[changed.batch as usize], changed.row as usize);
        rows.is_equal(at(one), at(other))
    };
    let mut sums = Sums::new(taken.len());
    for changed in taken {
        match sums.find(&changed, is_equal)? {
            Ok(place) => sums.taken[place].count = sum(sums.taken[place].count, changed.count)?,
            Err(slot) => sums.insert(slot, changed),
        }
    }
    // How many copies of each row that is taken back come in the same cycle.
    let mut come = vec![0; sums.taken.len()];
    let mut places = Vec::with_capacity(added.len());
    for changed in &added {
        let place = sums.find(changed, is_equal)?.ok();
        if let Some(place) = place {
            come[place] = sum(come[place], changed.count)?;
        }
        places.push(place);
    }
    for (taken, come) in sums.taken.iter_mut().zip(&mut come) {
        let both = taken.count.min(*come);
        taken.count -= both;
        *come -= both;
    }
    for (changed, place) in added.iter_mut().zip(places) {
        if let Some(place) = place {
            changed.count = changed.count.min(come[place]);
            come[place] -= changed.count;
        }
    }
    sums.taken.retain(|changed| changed.count > 0);
    added.retain(|changed| changed.count > 0);
    Ok(Changes { taken: sums.taken, added })
}

/// The weights of rows: their last column.
fn weights_of(rows: &RecordBatch) -> Result<&[i64], Cause> {
    let weights = rows.columns().last().and_then(|last| last.as_primitive_opt::<Int64Type>());
    let weights = weights.ok_or_else(|| Cause::bug("the rows of a changelog have no weights"))?;
    Ok(weights.values())
}

fn sum(one: u64, other: u64) -> Result<u64, Cause> {
    one.checked_add(other).ok_or_else(|| Cause::bug("the weights of a row are more than can be counted"))
}

/// The rows that are taken back, each once.
struct Sums {
    taken: Vec<ChangedRow>,
    /// Their places plus one, by hash; 0 is a free slot.
    slots: Vec<u32>,
}

impl Sums {
    /// With room for this many.
    fn new(rows: usize) -> Sums {
        Sums { taken: Vec::with_capacity(rows), slots: vec![0; (2 * rows).next_power_of_two()] }
    }

    /// The place of a row that is equal to this one, or the slot where it would be.
    fn find(
        &self,
        changed: &ChangedRow,
        is_equal: impl Fn(&ChangedRow, &ChangedRow) -> Result<bool, Cause>,
    ) -> Result<Result<usize, usize>, Cause> {
        let mut slot = changed.hash as usize & (self.slots.len() - 1);
        while let Some(place) = (self.slots[slot] as usize).checked_sub(1) {
            let known = &self.taken[place];
            if known.hash == changed.hash && is_equal(known, changed)? {
                return Ok(Ok(place));
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        Ok(Err(slot))
    }

    fn insert(&mut self, slot: usize, changed: ChangedRow) {
        self.taken.push(changed);
        self.slots[slot] = self.taken.len() as u32;
    }
}
