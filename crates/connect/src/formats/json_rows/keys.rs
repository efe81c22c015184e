//! Assigns the keys of objects to fields: the key with exactly the field's name, or else one that differs only in case.
//! Remembers which fields never had a key, and which keys belong to no field.

use std::cmp::Reverse;
use std::collections::HashMap;

use arrow_schema::FieldRef;

/// How many spellings of keys are remembered.
const REMEMBERED_MAX: usize = 512;

/// The names of an object's fields.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) fields: Vec<FieldRef>,
    exact: HashMap<String, usize>,
    /// The fields by their names in small letters, unless two of them differ only in case.
    folded: HashMap<String, Option<usize>>,
    /// What other keys meant, and how often they came.
    remembered: HashMap<Box<str>, (Meaning, u64)>,
    /// Which fields had a key.
    has_met: Vec<bool>,
}

/// What a key of an object means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The field of exactly this name.
    Field(usize),
    /// The field whose name differs only in case.
    Like(usize),
    Nothing,
}

impl Keys {
    pub(super) fn new(fields: Vec<FieldRef>) -> Keys {
        let (mut exact, mut folded) = (HashMap::new(), HashMap::new());
        for (index, field) in fields.iter().enumerate() {
            exact.insert(field.name().clone(), index);
            let of_name = folded.entry(field.name().to_lowercase());
            of_name.and_modify(|field| *field = None).or_insert(Some(index));
        }
        Keys { exact, folded, remembered: HashMap::new(), has_met: vec![false; fields.len()], fields }
    }

    /// Returns what a key means; `expected` is the field whose key usually comes now.
    #[inline]
    pub(super) fn meaning(&mut self, key: &str, expected: usize) -> Meaning {
        if self.fields.get(expected).is_some_and(|field| field.name() == key) {
            self.has_met[expected] = true;
            return Meaning::Field(expected);
        }
        if let Some((meaning, count)) = self.remembered.get_mut(key) {
            *count += 1;
            return *meaning;
        }
        let like = || self.folded.get(&key.to_lowercase()).copied().flatten();
        let meaning = match self.exact.get(key) {
            Some(field) => Meaning::Field(*field),
            None => like().map_or(Meaning::Nothing, Meaning::Like),
        };
        if let Meaning::Field(field) | Meaning::Like(field) = meaning {
            self.has_met[field] = true;
        }
        if self.remembered.len() < REMEMBERED_MAX {
            self.remembered.insert(key.into(), (meaning, 1));
        }
        meaning
    }

    /// Returns keys that match no field, the most frequent ones first.
    pub(super) fn strangers(&self) -> Vec<(&str, u64)> {
        let all = self.remembered.iter().filter(|(_, (meaning, _))| *meaning == Meaning::Nothing);
        let mut strangers: Vec<(&str, u64)> = all.map(|(key, (_, count))| (key.as_ref(), *count)).collect();
        strangers.sort_unstable_by_key(|(key, count)| (Reverse(*count), *key));
        strangers
    }

    /// Returns the fields that no object had.
    pub(super) fn absent(&self) -> Vec<usize> {
        (0..self.fields.len()).filter(|field| !self.has_met[*field]).collect()
    }
}
