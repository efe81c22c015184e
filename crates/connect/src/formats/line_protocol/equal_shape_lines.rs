//! Parses similar lines together, column by column, so that the same code runs over one line after the other.
//!
//! This path accepts only what is valid and regular. Everything else is left to [`Points::push`], which also reports
//! what is wrong.
//!
//! [`Points::push`]: super::points::Points::push

use super::boolean::boolean;
use super::column::Column;
use super::names::ValueTarget;
use super::numbers::{number_of, whole};
use super::shape::{MarkedLine, Shape};

/// The most lines that are parsed together: their text should stay in the first-level cache.
const LINES_MAX: usize = 64;

/// A location in a text.
type TextRange = (usize, usize);

/// Consecutive lines of one shape.
pub(super) struct EqualShapeLines<'a> {
    text: &'a [u8],
    shape: &'a Shape,
    start: usize,
    /// The marks of all the lines.
    marks: &'a [u32],
}

impl<'a> EqualShapeLines<'a> {
    /// The lines from this one on that have the shape, within a limit of bytes; `line` itself has it.
    pub(super) fn new(
        text: &'a [u8],
        line: MarkedLine<'a>,
        shape: &'a Shape,
        bytes_max: usize,
    ) -> EqualShapeLines<'a> {
        let stride = shape.marks();
        let (mut lines, mut start) = (0, line.start);
        while let Some(marks) = line.marks.get(lines * stride..)
            && lines < LINES_MAX
            && (lines == 0 || shape.fits(text, MarkedLine { start, marks }))
        {
            let end = marks[stride - 1] as usize;
            if end - start > bytes_max {
                break;
            }
            (lines, start) = (lines + 1, end + 1);
        }
        EqualShapeLines { text, shape, start: line.start, marks: &line.marks[..lines * stride] }
    }

    pub(super) fn lines(&self) -> usize {
        self.marks.len() / self.shape.marks()
    }

    /// Only the first lines of these.
    pub(super) fn first(self, lines: usize) -> EqualShapeLines<'a> {
        EqualShapeLines { marks: &self.marks[..lines * self.shape.marks()], ..self }
    }

    /// The first line's measurement, which the others share.
    pub(super) fn measurement(&self) -> TextRange {
        (self.start, self.marks.first().map_or(self.start, |end| *end as usize))
    }

    /// Writes the values of tags and fields into their columns, starting at this row. Returns how many lines are good;
    /// some columns may have values of the others.
    pub(super) fn push(mut self, columns: &mut [Column], row: usize) -> usize {
        for (index, pair) in self.shape.pairs.iter().enumerate() {
            let column = match pair.target {
                ValueTarget::Column(column) => Some(&mut columns[column]),
                ValueTarget::Undeclared => None,
            };
            let good = if index < self.shape.tags {
                self.push_tags(index, column, row)
            } else {
                self.push_fields(index, column, row)
            };
            self = self.first(good);
        }
        self.lines()
    }

    fn push_tags(&self, pair: usize, column: Option<&mut Column>, row: usize) -> usize {
        let values = self.values(pair).take_while(|(at, end)| at < end);
        match column {
            Some(column) => column.push_texts(row, self.text, values),
            None => values.count(),
        }
    }

    fn push_fields(&self, pair: usize, column: Option<&mut Column>, row: usize) -> usize {
        let values = self.values(pair);
        match column {
            Some(column) if column.is_boolean() => {
                column.push_booleans(row, values.map_while(|(at, end)| boolean(&self.text[at..end])))
            }
            Some(column) => {
                column.push_numbers(row, values.map_while(|(at, end)| number_of(self.text, at, end)))
            }
            None => values
                .take_while(|(at, end)| {
                    number_of(self.text, *at, *end).is_some() || boolean(&self.text[*at..*end]).is_some()
                })
                .count(),
        }
    }

    /// Where the values of a pair are.
    #[inline(always)]
    fn values(&self, pair: usize) -> impl Iterator<Item = TextRange> {
        let lines = self.marks.chunks_exact(self.shape.marks());
        lines.map(move |marks| (marks[pair * 2 + 1] as usize + 1, marks[pair * 2 + 2] as usize))
    }

    /// The times of the lines, up to the first one that is invalid; `None` for lines without.
    pub(super) fn times(&self) -> impl Iterator<Item = Option<i64>> {
        let (text, stride, has_time) = (self.text, self.shape.marks(), self.shape.has_time);
        self.marks.chunks_exact(stride).map_while(move |marks| {
            let end = marks[stride - 1] as usize;
            let end = if text[end - 1] == b'\r' { end - 1 } else { end };
            if has_time { whole(text, marks[stride - 2] as usize + 1, end).map(Some) } else { Some(None) }
        })
    }
}
