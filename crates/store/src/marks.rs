//! Which rows each earlier version had.

use std::sync::Arc;

/// The rows of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The cycle after which it was published.
    pub cycle: u64,
    /// The number of its first row.
    pub first: u64,
    /// One past the number of its last row.
    pub end: u64,
    /// The largest time of its rows and of all rows before.
    pub latest: i64,
    /// The number of the first row that came with it. Those between the end of the version before and this one were stored
    /// again. Only of a changelog.
    pub came: u64,
    /// The numbers of the rows that it has taken back. Only of a changelog.
    pub taken: Option<Arc<[u64]>>,
}

impl Mark {
    /// The bytes that it holds besides itself.
    pub fn bytes(&self) -> usize {
        self.taken.as_ref().map_or(0, |taken| size_of_val(&**taken))
    }
}

const BLOCK: usize = 256;

/// The marks of the versions that can be read, oldest first. A clone costs little however many they are.
#[derive(Clone, Default)]
pub(crate) struct Marks {
    full: Arc<Vec<Arc<[Mark]>>>,
    /// How many of the first full block are gone.
    gone: usize,
    last: Vec<Mark>,
}

impl Marks {
    pub fn push(&mut self, mark: Mark) {
        self.last.push(mark);
        if self.last.len() == BLOCK {
            let full = std::mem::take(&mut self.last);
            Arc::make_mut(&mut self.full).push(full.into());
        }
    }

    pub fn len(&self) -> usize {
        self.full.len() * BLOCK - self.gone + self.last.len()
    }

    pub fn oldest(&self) -> Option<&Mark> {
        self.full.first().map(|block| &block[self.gone]).or(self.last.first())
    }

    pub fn newest(&self) -> Option<&Mark> {
        self.last.last().or(self.full.last().and_then(|block| block.last()))
    }

    pub fn pop_oldest(&mut self) {
        if self.full.is_empty() {
            self.last.remove(0);
            return;
        }
        self.gone += 1;
        if self.gone == BLOCK {
            self.gone = 0;
            Arc::make_mut(&mut self.full).remove(0);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Mark> {
        self.full.iter().flat_map(|block| block.iter()).skip(self.gone).chain(&self.last)
    }

    /// The first mark after a cycle.
    pub fn first_after(&self, cycle: u64) -> Option<Mark> {
        let is_before = |mark: &Mark| mark.cycle <= cycle;
        let blocks = self.full.partition_point(|block| block.last().is_some_and(is_before));
        let marks = match self.full.get(blocks) {
            Some(block) => &block[if blocks == 0 { self.gone } else { 0 }..],
            None => &self.last,
        };
        marks.get(marks.partition_point(is_before)).cloned()
    }

    /// The last mark for which `is_before` holds, which must hold for no mark behind one for which it does not.
    pub fn last_before(&self, is_before: impl Fn(&Mark) -> bool) -> Option<Mark> {
        let in_last = self.last.partition_point(&is_before);
        if in_last > 0 {
            return Some(self.last[in_last - 1].clone());
        }
        let blocks = self.full.partition_point(|block| is_before(&block[0]));
        let block = &self.full[blocks.checked_sub(1)?];
        let skipped = if blocks == 1 { self.gone } else { 0 };
        let found = skipped + block[skipped..].partition_point(&is_before);
        (found > skipped).then(|| block[found - 1].clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn marks_are_found_as_in_a_queue() {
        let (mut marks, mut queue) = (Marks::default(), VecDeque::new());
        for cycle in (0..3000).step_by(2) {
            let mark = Mark { cycle, end: cycle, ..Mark::default() };
            marks.push(mark.clone());
            queue.push_back(mark);
            while queue.len() > 700 {
                queue.pop_front();
                marks.pop_oldest();
            }
            assert_eq!(
                (marks.len(), marks.oldest(), marks.newest()),
                (queue.len(), queue.front(), queue.back())
            );
            for asked in [0, 1, cycle / 2, cycle.saturating_sub(1399), cycle, cycle + 1] {
                let expected = queue.iter().rfind(|mark| mark.cycle <= asked).cloned();
                assert_eq!(marks.last_before(|mark| mark.cycle <= asked), expected, "{asked} at {cycle}");
                let expected = queue.iter().find(|mark| mark.cycle > asked).cloned();
                assert_eq!(marks.first_after(asked), expected, "after {asked} at {cycle}");
            }
        }
        assert!(marks.iter().eq(&queue));
    }
}
