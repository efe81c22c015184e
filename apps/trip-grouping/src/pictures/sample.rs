//! An even sample of items that come one by one.

/// Keeps every n-th item, where n doubles whenever there are too many. It depends on the order of the items alone.
///
/// ```
/// use tidemill_trip_grouping::pictures::Sample;
/// let mut sample = Sample::new(3);
/// (0..10).for_each(|number| sample.push(number));
/// assert_eq!((sample.kept(), sample.every()), (&[0, 4, 8][..], 4));
/// ```
#[derive(Clone, Debug)]
pub struct Sample<T> {
    most: usize,
    every: u64,
    seen: u64,
    kept: Vec<T>,
}

impl<T> Sample<T> {
    /// A sample of at most this many items.
    pub fn new(most: usize) -> Self {
        Sample { most: most.max(1), every: 1, seen: 0, kept: Vec::new() }
    }

    /// Takes the next item into account.
    pub fn push(&mut self, item: T) {
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == self.most {
                self.every *= 2;
                let mut index = 0;
                self.kept.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(item);
            }
        }
        self.seen += 1;
    }

    /// The items that were kept, in their order.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// One of how many items was kept.
    pub fn every(&self) -> u64 {
        self.every
    }
}
