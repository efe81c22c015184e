//! Sets of positions of a stream, as ranges.

use std::fmt;
use std::ops::Range;

/// Positions of a stream: ranges in ascending order, with a gap between each and the next.
///
/// ```
/// use tidemill_journal::Positions;
/// let mut positions = Positions::default();
/// positions.add(7..8);
/// positions.add(3..5);
/// positions.add(5..7);
/// assert_eq!((positions.ranges(), positions.count()), (&[3..8][..], 5));
/// positions.add(10..11);
/// assert_eq!(positions.to_string(), "3..7, 10");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    ranges: Vec<Range<u64>>,
}

impl Positions {
    /// Adds the positions of a range.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let end = self.ranges.partition_point(|known| known.start <= range.end);
        let touched = &self.ranges[first..end];
        let start = touched.first().map_or(range.start, |known| known.start.min(range.start));
        let last = touched.last().map_or(range.end, |known| known.end.max(range.end));
        self.ranges.splice(first..end, std::iter::once(start..last));
    }

    /// The ranges.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// How many positions there are.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Those of them that lie in a range.
    ///
    /// ```
    /// use tidemill_journal::Positions;
    /// let mut positions = Positions::default();
    /// positions.add(3..5);
    /// positions.add(8..9);
    /// assert_eq!(positions.within(4..9).ranges(), [4..5, 8..9]);
    /// assert!(positions.within(5..8).is_empty());
    /// ```
    pub fn within(&self, range: Range<u64>) -> Positions {
        let first = self.ranges.partition_point(|known| known.end <= range.start);
        let known = self.ranges[first..].iter().take_while(|known| known.start < range.end);
        Positions {
            ranges: known.map(|known| known.start.max(range.start)..known.end.min(range.end)).collect(),
        }
    }

    /// Returns the positions of a range that are not among these.
    ///
    /// ```
    /// use tidemill_journal::Positions;
    /// let mut positions = Positions::default();
    /// positions.add(3..5);
    /// assert_eq!(positions.outside(2..7).ranges(), [2..3, 5..7]);
    /// ```
    pub fn outside(&self, range: Range<u64>) -> Positions {
        let mut outside = Positions::default();
        let mut next = range.start;
        for inside in &self.within(range.clone()).ranges {
            outside.add(next..inside.start);
            next = inside.end;
        }
        outside.add(next..range.end);
        outside
    }
}

impl FromIterator<Range<u64>> for Positions {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Positions {
        let mut positions = Positions::default();
        ranges.into_iter().for_each(|range| positions.add(range));
        positions
    }
}

/// As people write them: the first and the last position of each range.
impl fmt::Display for Positions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            if index > 0 {
                formatter.write_str(", ")?;
            }
            match range.end - range.start {
                1 => write!(formatter, "{}", range.start)?,
                _ => write!(formatter, "{}..{}", range.start, range.end - 1)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every set of ranges within ten positions, built in every order of three steps, against a set of numbers.
    #[test]
    fn ranges_are_what_a_set_of_numbers_is() {
        let ranges: Vec<Range<u64>> =
            (0..7).flat_map(|start| (start..7).map(move |end| start..end)).collect();
        for first in &ranges {
            for second in &ranges {
                for third in &ranges {
                    let added = [first.clone(), second.clone(), third.clone()];
                    let positions: Positions = added.iter().cloned().collect();
                    let expected: BTreeSet<u64> = added.into_iter().flatten().collect();
                    let listed: Vec<u64> = positions.ranges().iter().cloned().flatten().collect();
                    assert!(listed.iter().eq(&expected), "{positions}: {expected:?}");
                    let outside: Vec<u64> =
                        positions.outside(1..6).ranges().iter().cloned().flatten().collect();
                    assert!(
                        outside.into_iter().eq((1..6).filter(|at| !expected.contains(at))),
                        "{positions}"
                    );
                    let has_gaps = positions.ranges().windows(2).all(|pair| pair[0].end < pair[1].start);
                    assert!(has_gaps, "{positions}");
                }
            }
        }
    }
}
