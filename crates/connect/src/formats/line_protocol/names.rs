//! The names of tags and fields seen so far, and where their values go.

use std::collections::HashMap;

use super::escapes::behind_backslash;
use super::scan::{Pattern, find};

/// The most names that are kept; others are looked up again each time.
const NAMES_MAX: usize = 4096;

/// Where the values of a name go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueTarget {
    /// Into this column.
    Column(usize),
    /// Nowhere: there is no such column.
    Undeclared,
}

/// A name as it is written, including the `=` behind it.
#[derive(Debug)]
struct KnownName {
    pattern: Pattern,
    target: ValueTarget,
    /// The name that came after it last time.
    next: usize,
}

/// The names seen so far. Points of one sender mostly have the same names in the same order, so the name that followed
/// last time is tried first.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: Vec<KnownName>,
    table: HashMap<Box<[u8]>, usize>,
    measurements: HashMap<Box<[u8]>, usize>,
}

/// A name in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameMatch {
    pub(super) target: ValueTarget,
    /// Its number, which is passed when the next one is looked up.
    pub(super) number: usize,
    /// Where the value begins.
    pub(super) value: usize,
}

impl Names {
    /// The name at `at`, if it followed the one with number `before` last time.
    #[inline(always)]
    pub(super) fn follow(&self, before: usize, text: &[u8], at: usize) -> Option<NameMatch> {
        let number = self.known.get(before)?.next;
        let known = self.known.get(number)?;
        let found = NameMatch { target: known.target, number, value: at + known.pattern.len() };
        known.pattern.is_at(text, at).then_some(found)
    }

    /// The name at `at`, whatever came before. `resolve` returns the target of a new name, given as it is written.
    #[inline(never)]
    pub(super) fn look_up(
        &mut self,
        before: usize,
        text: &[u8],
        at: usize,
        end: usize,
        resolve: impl FnOnce(&[u8]) -> ValueTarget,
    ) -> Result<NameMatch, &'static str> {
        let equals = end_of_name(text, at, end)?;
        let name = &text[at..equals];
        let number = match self.table.get(name) {
            Some(number) => *number,
            None => {
                let target = resolve(name);
                if self.known.len() >= NAMES_MAX {
                    return Ok(NameMatch { target, number: usize::MAX, value: equals + 1 });
                }
                self.add(name, target)
            }
        };
        if let Some(known) = self.known.get_mut(before) {
            known.next = number;
        }
        Ok(NameMatch { target: self.known[number].target, number, value: equals + 1 })
    }

    /// Where the values of a name go, if it was seen before.
    pub(super) fn target(&self, name: &[u8]) -> Option<ValueTarget> {
        self.table.get(name).map(|number| self.known[*number].target)
    }

    fn add(&mut self, name: &[u8], target: ValueTarget) -> usize {
        let number = self.known.len();
        let pattern = Pattern::new([name, b"="].concat());
        self.known.push(KnownName { pattern, target, next: usize::MAX });
        self.table.insert(name.into(), number);
        number
    }

    /// The number of a measurement, which precedes its first name; `None` if there are too many.
    #[inline(always)]
    pub(super) fn measurement(&mut self, last: Option<usize>, name: &[u8]) -> Option<usize> {
        match last.and_then(|number| Some((number, self.known.get(number)?))) {
            Some((number, known)) if *known.pattern.bytes() == *name => Some(number),
            _ => self.new_measurement(name),
        }
    }

    #[inline(never)]
    fn new_measurement(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(number) = self.measurements.get(name) {
            return Some(*number);
        }
        if self.known.len() >= NAMES_MAX {
            return None;
        }
        let number = self.known.len();
        let pattern = Pattern::new(name.to_vec());
        self.known.push(KnownName { pattern, target: ValueTarget::Undeclared, next: usize::MAX });
        self.measurements.insert(name.into(), number);
        Some(number)
    }
}

/// Where the `=` behind the name is.
fn end_of_name(text: &[u8], mut at: usize, end: usize) -> Result<usize, &'static str> {
    let start = at;
    loop {
        at = find(text, at, end, *b"=, \\");
        match text[..end].get(at) {
            Some(b'=') if at == start => return Err("a name is missing before '='"),
            Some(b'=') => return Ok(at),
            Some(b'\\') => at = behind_backslash(text, at, end, false),
            _ => return Err("'=' is missing after a name"),
        }
    }
}
