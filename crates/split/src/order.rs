//! A stable sort of row numbers by a small integer key, on which splitting and merging are built.

/// Reusable buffers of a stable sort of `0..keys.len()` by key.
#[derive(Debug, Default)]
pub struct Sorter {
    starts: Vec<u32>,
    order: Vec<u32>,
    pairs: Vec<u64>,
}

/// Below this many keys per row, counting is cheaper than comparing.
const KEYS_PER_ROW_FOR_COUNTING: usize = 8;

/// Whether the keys are so numerous and the rows so few that comparing is cheaper than counting.
pub(crate) fn is_sparse(rows: usize, key_count: usize) -> bool {
    key_count > rows.saturating_mul(KEYS_PER_ROW_FOR_COUNTING)
}

impl Sorter {
    /// The row numbers in ascending order of `keys`; rows with equal keys stay in ascending order. Rows whose key is
    /// not below `key_count` are left out.
    ///
    /// ```
    /// let mut sorter = tidemill_split::order::Sorter::default();
    /// assert_eq!(sorter.sort(&[2, 0, 9, 2, 1], 3), &[1, 4, 0, 3]);
    /// ```
    pub fn sort(&mut self, keys: &[u32], key_count: usize) -> &[u32] {
        if is_sparse(keys.len(), key_count) {
            self.sort_by_comparing(keys, key_count)
        } else {
            self.sort_by_counting(keys, key_count)
        }
        &self.order
    }

    fn sort_by_counting(&mut self, keys: &[u32], key_count: usize) {
        self.starts.clear();
        self.starts.resize(key_count + 1, 0);
        // The last count is a bin for rows that are left out.
        for key in keys {
            self.starts[(*key as usize).min(key_count)] += 1;
        }
        let mut start = 0;
        for count in &mut self.starts {
            start += std::mem::replace(count, start);
        }
        let kept = self.starts[key_count] as usize;
        self.order.clear();
        self.order.resize(keys.len(), 0);
        for (row, key) in keys.iter().enumerate() {
            let next = &mut self.starts[(*key as usize).min(key_count)];
            self.order[*next as usize] = row as u32;
            *next += 1;
        }
        self.order.truncate(kept);
    }

    fn sort_by_comparing(&mut self, keys: &[u32], key_count: usize) {
        self.pairs.clear();
        let rows = keys.iter().enumerate().filter(|(_, key)| (**key as usize) < key_count);
        self.pairs.extend(rows.map(|(row, key)| u64::from(*key) << 32 | row as u64));
        self.pairs.sort_unstable();
        self.order.clear();
        self.order.extend(self.pairs.iter().map(|pair| *pair as u32));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_sort_stably(keys in prop::collection::vec(0u32..40, 0..300)) {
            let mut expected: Vec<u32> = (0..keys.len() as u32).filter(|row| keys[*row as usize] < 30).collect();
            expected.sort_by_key(|row| keys[*row as usize]);
            let mut sorter = Sorter::default();
            sorter.sort_by_counting(&keys, 30);
            prop_assert_eq!(&sorter.order, &expected);
            sorter.sort_by_comparing(&keys, 30);
            prop_assert_eq!(&sorter.order, &expected);
        }
    }
}
