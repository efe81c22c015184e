//! The shape of a line: its names and separators. Most lines have the shape of one that came shortly before.

use super::names::{Names, ValueTarget};
use super::scan::Pattern;

/// A tag or field of the lines of a shape.
#[derive(Debug)]
pub(super) struct Pair {
    /// The separator before the name, the name, the `=` behind it.
    text: Pattern,
    /// Where its values go.
    pub(super) target: ValueTarget,
}

/// Lines of the same measurement with the same names in the same order, without strings, backslashes or redundant
/// blanks.
#[derive(Debug)]
pub(super) struct Shape {
    measurement: Box<[u8]>,
    pub(super) pairs: Box<[Pair]>,
    /// How many of the pairs are tags; the others are fields.
    pub(super) tags: usize,
    pub(super) has_time: bool,
}

/// A line in its text: its start and its marks. The marks of the following lines may come after them.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedLine<'a> {
    pub(super) start: usize,
    pub(super) marks: &'a [u32],
}

impl Shape {
    /// The shape of a line that is a good point and has exactly these marks; `None` if they do not determine it.
    pub(super) fn of(text: &[u8], line: MarkedLine, names: &Names) -> Option<Shape> {
        // The end of the measurement or of a value before each pair's name, the `=` behind it, what the time comes
        // after, the line's end.
        let has_time = line.marks.len().is_multiple_of(2);
        let count = line.marks.len().checked_sub(1 + usize::from(has_time))? / 2;
        let mark = |index: usize| line.marks[index] as usize;
        let pair = |index: usize| {
            let (at, equals) = (mark(index * 2), mark(index * 2 + 1));
            let target = names.target(text.get(at + 1..equals)?)?;
            Some(Pair { text: Pattern::new(text[at..=equals].to_vec()), target })
        };
        let pairs: Box<[Pair]> = (0..count).map(pair).collect::<Option<_>>()?;
        let tags = pairs.iter().take_while(|pair| pair.text.bytes()[0] == b',').count();
        let measurement = text[line.start..mark(0)].into();
        let shape = Shape { measurement, tags, pairs, has_time };
        (shape.has_kinds() && shape.fits(text, line)).then_some(shape)
    }

    /// Whether it has the structure of a point: tags after commas, a field after a blank, further fields after commas.
    fn has_kinds(&self) -> bool {
        let is_kind = |(index, pair): (usize, &Pair)| match pair.text.bytes()[0] {
            b' ' => index == self.tags,
            first => first == b',' && index != self.tags,
        };
        self.tags < self.pairs.len()
            && self.pairs.iter().enumerate().all(is_kind)
            && self.pairs.iter().all(|pair| pair.text.bytes().ends_with(b"="))
    }

    /// The marks of one line.
    pub(super) fn marks(&self) -> usize {
        self.pairs.len() * 2 + 1 + usize::from(self.has_time)
    }

    /// Whether a line has this shape. Its values may still be invalid.
    #[inline(always)]
    pub(super) fn fits(&self, text: &[u8], line: MarkedLine) -> bool {
        let Some(last) = line.marks.get(self.marks() - 1) else { return false };
        let behind = line.marks[self.pairs.len() * 2] as usize;
        // There is none between two marks, so the marks within a pair's text are those of the pair.
        text[*last as usize] == b'\n'
            && (!self.has_time || text[behind] == b' ')
            && text[line.start..line.marks[0] as usize] == *self.measurement
            && self
                .pairs
                .iter()
                .zip(line.marks.chunks_exact(2))
                .all(|(pair, marks)| pair.text.is_at(text, marks[0] as usize))
    }
}

/// The shapes seen so far, as far as they are kept.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: Vec<KnownShape>,
    /// The shape of the last line.
    last: usize,
    /// The number of lines without a known shape.
    strange: usize,
}

#[derive(Debug)]
struct KnownShape {
    shape: Shape,
    /// The shape that came after it last time.
    next: usize,
}

/// The most shapes that are kept.
const SHAPES_MAX: usize = 64;
/// Once that many are kept, one in this many lines that fit none is learned.
const STRANGE_PER_LEARNED: usize = 16;

impl Shapes {
    /// The shape of this line, if it is known.
    pub(super) fn find(&mut self, text: &[u8], line: MarkedLine) -> Option<&Shape> {
        let fits = |index: &usize| self.known[*index].shape.fits(text, line);
        let next = self.known.get(self.last)?.next;
        let found = [self.last, next].into_iter().find(fits).or_else(|| (0..self.known.len()).find(fits))?;
        self.known[self.last].next = found;
        self.last = found;
        Some(&self.known[found].shape)
    }

    /// Keeps the shape of a good point that fits none of the known ones.
    pub(super) fn learn(&mut self, text: &[u8], line: MarkedLine, names: &Names) {
        self.strange += 1;
        if self.known.len() == SHAPES_MAX && !self.strange.is_multiple_of(STRANGE_PER_LEARNED) {
            return;
        }
        let Some(shape) = Shape::of(text, line, names) else { return };
        let known = KnownShape { shape, next: 0 };
        if self.known.len() < SHAPES_MAX {
            self.known.push(known)
        } else {
            self.known[self.strange / STRANGE_PER_LEARNED % SHAPES_MAX] = known
        }
    }
}
