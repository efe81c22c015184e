//! Finds the separators of a text for many lines at once.

use super::block::{WORD_BYTES, marks_in};

/// The positions of all bytes of a text that are one of [`MARKS`](super::block::MARKS).
#[derive(Debug, Default)]
pub(super) struct Marks {
    words: Vec<u64>,
    places: Vec<u32>,
    count: usize,
}

impl Marks {
    /// Searches a text of less than four gibibytes; returns whether all of it is ASCII.
    pub(super) fn find(&mut self, text: &[u8]) -> bool {
        self.words.clear();
        let (blocks, rest) = text.as_chunks::<WORD_BYTES>();
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let is_ascii = marks_in(blocks, &mut self.words) & marks_in(&[last], &mut self.words);
        self.set_places();
        is_ascii
    }

    /// Ascending.
    pub(super) fn places(&self) -> &[u32] {
        &self.places[..self.count]
    }

    fn set_places(&mut self) {
        let count = self.words.iter().map(|word| word.count_ones() as usize).sum();
        if self.places.len() < count {
            self.places.resize(count, 0);
        }
        let mut places = self.places[..count].iter_mut();
        for (index, word) in self.words.iter().enumerate() {
            let (mut marks, at) = (*word, (index * WORD_BYTES) as u32);
            while marks != 0
                && let Some(place) = places.next()
            {
                *place = at + marks.trailing_zeros();
                marks &= marks - 1;
            }
        }
        self.count = count;
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::MARKS;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_mark_is_found(text in "([a-d,= \n\"\\\\]{0,70}|[ -~é]{0,300})") {
            let text = text.as_bytes();
            let mut marks = Marks::default();
            prop_assert_eq!(marks.find(text), text.is_ascii());
            let expected: Vec<u32> =
                (0..text.len()).filter(|at| MARKS.contains(&text[*at])).map(|at| at as u32).collect();
            prop_assert_eq!(marks.places(), expected);
        }
    }
}
