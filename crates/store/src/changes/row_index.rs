//! From the hash of a whole row to the copies of it that are shown now. Only the writer uses it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tidemill_core::prefetch;

/// The slots of a page. A full page is split in two, so no step takes long however many rows there are.
const SLOTS: usize = 1 << 10;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// A page with more than this many entries is split.
const FULL: usize = SLOTS / 4 * 3;
/// Two halves that have at most this many entries together become one page again.
const SPARSE: usize = SLOTS / 4;
/// How many bits of a tag choose the page at most. A page of that depth has a slot for each tag that can be in it.
const DEPTH_MAX: u32 = 31 - SLOT_BITS;
/// The tag of a slot without an entry. The upper bit of any other is set.
const FREE: u32 = 0;

/// The part of a hash by which entries are found. Rows with the same tag need not be equal.
fn tag_of(hash: u64) -> u32 {
    hash as u32 | 1 << 31
}

/// A row: of those with its tag the one that came last.
#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u32,
    /// The upper half of its hash.
    check: u32,
    /// The lower half of its number.
    number: u32,
}

impl Entry {
    fn new(hash: u64, number: u64) -> Entry {
        Entry { tag: tag_of(hash), check: (hash >> 32) as u32, number: number as u32 }
    }

    fn is_free(self) -> bool {
        self.tag == FREE
    }
}

/// Other rows with the tag of an entry.
#[derive(Clone, Copy)]
struct Other {
    number: u64,
    check: u32,
}

/// Tags are parts of hashes already.
#[derive(Default)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, tag: u32) {
        self.0 = (self.0 ^ u64::from(tag)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Slots with linear probing: the lowest bits of a tag say where an entry would be best.
#[derive(Default)]
struct Page {
    slots: Box<[Entry]>,
    used: usize,
    /// The number of bits above those of the slot in which all its tags agree.
    depth: u32,
}

impl Page {
    fn new(depth: u32) -> Page {
        Page { slots: vec![Entry::default(); SLOTS].into(), used: 0, depth }
    }

    fn home(tag: u32) -> usize {
        tag as usize & (SLOTS - 1)
    }

    /// The slot with this tag, or the free one that ends the search.
    fn find(&self, tag: u32) -> usize {
        let mut at = Page::home(tag);
        while !self.slots[at].is_free() && self.slots[at].tag != tag {
            at = (at + 1) % SLOTS;
        }
        at
    }

    fn insert(&mut self, entry: Entry) {
        let at = self.find(entry.tag);
        self.slots[at] = entry;
        self.used += 1;
    }

    /// Frees a slot. Entries behind it that would be better there move up, so that no search ends too early.
    fn free(&mut self, mut hole: usize) {
        self.used -= 1;
        self.slots[hole] = Entry::default();
        let mut at = (hole + 1) % SLOTS;
        while !self.slots[at].is_free() {
            let distance = |from: usize| at.wrapping_sub(from) % SLOTS;
            if distance(Page::home(self.slots[at].tag)) >= distance(hole) {
                self.slots.swap(hole, at);
                hole = at;
            }
            at = (at + 1) % SLOTS;
        }
    }
}

/// The copies of each row by the row's hash: the one that came last in a page, those before it in a list. A directory leads to
/// the pages; it doubles when a page is split further than it can tell (extendible hashing).
///
/// All rows are less than 2^32 apart, so the lower half of a number tells it.
pub(crate) struct RowIndex {
    directory: Vec<u32>,
    pages: Vec<Page>,
    /// Pages that are not in use.
    unused: Vec<u32>,
    /// For each tag with several rows the other ones, in the order in which they came.
    others: HashMap<u32, Vec<Other>, BuildHasherDefault<TagHasher>>,
    others_count: usize,
    /// One past the largest number.
    end: u64,
}

impl RowIndex {
    pub fn new() -> RowIndex {
        RowIndex {
            directory: vec![0],
            pages: vec![Page::new(0)],
            unused: Vec::new(),
            others: HashMap::default(),
            others_count: 0,
            end: 0,
        }
    }

    fn place(&self, tag: u32) -> usize {
        (tag >> SLOT_BITS) as usize & (self.directory.len() - 1)
    }

    fn page(&self, tag: u32) -> usize {
        self.directory[self.place(tag)] as usize
    }

    /// The number of an entry.
    fn number(&self, entry: Entry) -> u64 {
        self.end - u64::from((self.end as u32).wrapping_sub(entry.number))
    }

    fn others(&self, tag: u32) -> Option<&Vec<Other>> {
        if self.others.is_empty() { None } else { self.others.get(&tag) }
    }

    /// Fetches the memory that this hash will need.
    pub fn prefetch(&self, hash: u64) {
        let tag = tag_of(hash);
        prefetch::read(&self.pages[self.page(tag)].slots[Page::home(tag)]);
    }

    /// The number of the only row with this hash. `None`: there are several, perhaps with different hashes, or there is none.
    pub fn only(&self, hash: u64) -> Option<u64> {
        let tag = tag_of(hash);
        let page = &self.pages[self.page(tag)];
        let entry = page.slots[page.find(tag)];
        let is_only = !entry.is_free() && entry.check == (hash >> 32) as u32 && self.others(tag).is_none();
        is_only.then(|| self.number(entry))
    }

    /// The numbers of all rows with this hash, and perhaps of others; the one that came last is the first.
    pub fn all(&self, hash: u64) -> impl Iterator<Item = u64> {
        let tag = tag_of(hash);
        let page = &self.pages[self.page(tag)];
        let last = Some(page.slots[page.find(tag)]).filter(|last| !last.is_free());
        let others = self.others(tag).into_iter().flatten().rev();
        last.map(|last| self.number(last)).into_iter().chain(others.map(|other| other.number))
    }

    /// Adds a row that came after all others with its hash. Its number is larger than that of any row before.
    pub fn add(&mut self, hash: u64, number: u64) {
        self.end = number + 1;
        let entry = Entry::new(hash, number);
        let at = self.page(entry.tag);
        let slot = self.pages[at].find(entry.tag);
        let before = std::mem::replace(&mut self.pages[at].slots[slot], entry);
        if !before.is_free() {
            let other = Other { number: self.number(before), check: before.check };
            self.others.entry(entry.tag).or_default().push(other);
            self.others_count += 1;
            return;
        }
        self.pages[at].used += 1;
        if self.pages[at].used > FULL {
            self.split(entry.tag);
        }
    }

    /// Removes a row.
    pub fn remove(&mut self, hash: u64, number: u64) {
        let tag = tag_of(hash);
        let at = self.page(tag);
        let slot = self.pages[at].find(tag);
        let is_last = self.pages[at].slots[slot].number == number as u32;
        if self.others(tag).is_some()
            && let Some(others) = self.others.get_mut(&tag)
        {
            if is_last {
                if let Some(Other { number, check }) = others.pop() {
                    self.pages[at].slots[slot] = Entry { tag, check, number: number as u32 };
                }
            } else if let Some(place) = others.iter().rposition(|other| other.number == number) {
                // It is one of the last, or the hash of another row has the same tag.
                others.remove(place);
            }
            self.others_count -= 1;
            if others.is_empty() {
                self.others.remove(&tag);
            }
        } else if is_last {
            self.pages[at].free(slot);
            if self.pages[at].used <= SPARSE / 2 {
                while self.merge(tag) {}
            }
        }
    }

    /// A row was stored again under another number, which is larger than that of any row before. `order` tells for each row with
    /// its hash when it came.
    pub fn moved(&mut self, hash: u64, (from, to): (u64, u64), order: impl Fn(u64) -> u64) {
        let tag = tag_of(hash);
        let at = self.page(tag);
        let slot = self.pages[at].find(tag);
        if self.pages[at].slots[slot].number == from as u32 {
            self.pages[at].slots[slot].number = to as u32;
        } else if let Some(others) = self.others.get_mut(&tag) {
            let place = others.partition_point(|other| order(other.number) < order(to));
            debug_assert_eq!(others.get(place).map(|other| other.number), Some(from));
            if let Some(other) = others.get_mut(place) {
                other.number = to;
            }
        }
        self.end = to + 1;
    }

    /// Puts the rows of each hash into the order in which they came, after they were added in another one.
    pub fn sort(&mut self, order: impl Fn(u64) -> u64) {
        let mut others = std::mem::take(&mut self.others);
        for (tag, others) in &mut others {
            let at = self.page(*tag);
            let slot = self.pages[at].find(*tag);
            let last = self.pages[at].slots[slot];
            others.push(Other { number: self.number(last), check: last.check });
            others.sort_by_key(|other| order(other.number));
            if let Some(Other { number, check }) = others.pop() {
                self.pages[at].slots[slot] = Entry { tag: *tag, check, number: number as u32 };
            }
        }
        self.others = others;
    }

    /// The bytes of all pages, and of what leads to them.
    pub fn bytes(&self) -> usize {
        /// A list and its place in the map, about.
        const LIST_BYTES: usize = 64;
        (self.pages.len() - self.unused.len()) * SLOTS * size_of::<Entry>()
            + self.pages.len() * size_of::<Page>()
            + self.directory.len() * size_of::<u32>()
            + self.others.len() * LIST_BYTES
            + self.others_count * size_of::<Other>()
    }

    /// Divides the page of this tag in two.
    fn split(&mut self, tag: u32) {
        let from = self.page(tag);
        let depth = self.pages[from].depth;
        if depth == DEPTH_MAX {
            return;
        }
        if self.directory.len() == 1 << depth {
            self.directory.extend_from_within(..);
        }
        let mut halves = [Page::new(depth + 1), Page::new(depth + 1)];
        for entry in self.pages[from].slots.iter().filter(|entry| !entry.is_free()) {
            halves[(entry.tag >> (SLOT_BITS + depth)) as usize & 1].insert(*entry);
        }
        let [zero, one] = halves;
        self.pages[from] = zero;
        let to = match self.unused.pop() {
            Some(unused) => unused,
            None => {
                self.pages.push(Page::default());
                self.pages.len() as u32 - 1
            }
        };
        self.pages[to as usize] = one;
        let first = self.place(tag) & ((1 << depth) - 1) | 1 << depth;
        for place in (first..self.directory.len()).step_by(2 << depth) {
            self.directory[place] = to;
        }
    }

    /// Makes one page of the page of this tag and its other half, if both have few entries; whether it did.
    fn merge(&mut self, tag: u32) -> bool {
        let into = self.page(tag);
        let Some(depth) = self.pages[into].depth.checked_sub(1) else { return false };
        let half = (self.place(tag) & ((2 << depth) - 1)) ^ 1 << depth;
        let from = self.directory[half] as usize;
        if self.pages[from].depth != depth + 1 || self.pages[from].used + self.pages[into].used > SPARSE {
            return false;
        }
        let page = std::mem::take(&mut self.pages[from]);
        for entry in page.slots.iter().filter(|entry| !entry.is_free()) {
            self.pages[into].insert(*entry);
        }
        self.pages[into].depth = depth;
        self.unused.push(from as u32);
        for place in (half..self.directory.len()).step_by(2 << depth) {
            self.directory[place] = into as u32;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A hash of which this is the tag.
    fn hash_of(tag: u32) -> u64 {
        let tag = tag_of(u64::from(tag));
        u64::from(tag.wrapping_mul(0x85EB_CA6B)) << 32 | u64::from(tag)
    }

    /// The rows of each hash in the order in which they came, each with its number and when it came.
    #[derive(Default)]
    struct Plain(HashMap<u32, Vec<(u64, u64)>>);

    impl Plain {
        fn check(&self, index: &RowIndex, hash: u64) {
            let expected = self.0.get(&tag_of(hash)).map_or(&[][..], Vec::as_slice);
            let expected: Vec<u64> = expected.iter().rev().map(|(number, _)| *number).collect();
            assert_eq!(index.all(hash).collect::<Vec<_>>(), expected);
            let only = Some(&expected).filter(|expected| expected.len() == 1).map(|expected| expected[0]);
            assert_eq!(index.only(hash), only);
            assert_eq!(index.only(hash ^ 1 << 40), None, "the whole hash is compared");
        }
    }

    #[test]
    fn rows_are_found_while_pages_split_and_merge() {
        let (mut index, mut plain, mut random) = (RowIndex::new(), Plain::default(), 7);
        // Numbers beyond 2^32.
        let mut end = (1_u64 << 32) - 20_000;
        for phase in 0..6 {
            for step in 0..60_000_u64 {
                // Some hashes come often.
                let hash = hash_of(match next(&mut random) % 4 {
                    0 => next(&mut random) as u32 % 50,
                    _ => (next(&mut random) as u32 % 40_000).wrapping_mul(0x9E37_79B9),
                });
                let rows = plain.0.entry(tag_of(hash)).or_default();
                // Most rows come in even phases, and most go in odd ones.
                match next(&mut random) % 10 {
                    0..6 if phase % 2 == 0 => {
                        index.add(hash, end);
                        rows.push((end, step + phase * 60_000));
                        end += 1;
                    }
                    6 if !rows.is_empty() => {
                        // The oldest number is stored again, and stays where it is in the order.
                        let place = (0..rows.len()).min_by_key(|place| rows[*place].0).unwrap();
                        let from = std::mem::replace(&mut rows[place].0, end);
                        let order = |number: u64| {
                            let number = if number == from { end } else { number };
                            rows.iter().find(|row| row.0 == number).unwrap().1
                        };
                        index.moved(hash, (from, end), order);
                        end += 1;
                    }
                    7 if !rows.is_empty() => {
                        let place = next(&mut random) as usize % rows.len();
                        index.remove(hash, rows.remove(place).0);
                    }
                    _ => {
                        if let Some((number, _)) = rows.pop() {
                            index.remove(hash, number);
                        }
                    }
                }
                plain.check(&index, hash);
            }
            plain.0.keys().for_each(|tag| plain.check(&index, hash_of(*tag)));
        }
        let all: Vec<(u32, u64)> =
            plain.0.iter().flat_map(|(tag, rows)| rows.iter().map(|row| (*tag, row.0))).collect();
        all.into_iter().for_each(|(tag, number)| index.remove(hash_of(tag), number));
        assert!(index.directory.iter().all(|page| index.pages[*page as usize].used == 0));
        assert!(index.others.is_empty() && index.others_count == 0);
        assert_eq!(index.pages.len() - index.unused.len(), 1, "rows that are gone leave nothing");
    }

    #[test]
    fn a_row_takes_few_bytes() {
        let mut index = RowIndex::new();
        for row in 0..1_000_000_u64 {
            index.add(row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7, row);
        }
        assert!(index.bytes() < 33_000_000, "{} bytes for a million rows", index.bytes());
    }
}
