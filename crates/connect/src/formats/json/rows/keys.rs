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
    /// The last field of each name in small letters.
    folded: HashMap<String, usize>,
    /// For each field: the one before it whose name differs only in case.
    alike: Vec<Option<usize>>,
    /// What other keys meant, and how often they came.
    remembered: HashMap<Box<str>, (Meaning, u64)>,
    /// Which fields had a key.
    has_met: Vec<bool>,
    /// Keys that match no field and came for the first time, if somebody wants to know them.
    new_strangers: Option<Vec<Box<str>>>,
}

/// What a key of an object means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The field of exactly this name.
    Field(usize),
    /// The field whose name differs only in case, and all before it that are alike.
    Like(usize),
    Nothing,
}

impl Keys {
    pub(super) fn new(fields: Vec<FieldRef>) -> Keys {
        let (mut exact, mut folded, mut alike) = (HashMap::new(), HashMap::new(), Vec::new());
        for (index, field) in fields.iter().enumerate() {
            exact.insert(field.name().clone(), index);
            alike.push(folded.insert(field.name().to_lowercase(), index));
        }
        let has_met = vec![false; fields.len()];
        Keys { exact, folded, alike, remembered: HashMap::new(), has_met, new_strangers: None, fields }
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
        let like = || self.folded.get(&key.to_lowercase()).copied();
        let meaning = match self.exact.get(key) {
            Some(field) => Meaning::Field(*field),
            None => like().map_or(Meaning::Nothing, Meaning::Like),
        };
        let mut met = meaning;
        while let Meaning::Field(field) | Meaning::Like(field) = met {
            self.has_met[field] = true;
            met = self.next_alike(met);
        }
        if let (Meaning::Nothing, Some(new)) = (meaning, &mut self.new_strangers) {
            new.push(key.into());
        }
        if self.remembered.len() < REMEMBERED_MAX {
            self.remembered.insert(key.into(), (meaning, 1));
        }
        meaning
    }

    /// Returns what else a key means: another field whose name differs only in case.
    #[inline]
    pub(super) fn next_alike(&self, meaning: Meaning) -> Meaning {
        match meaning {
            Meaning::Like(field) => self.alike[field].map_or(Meaning::Nothing, Meaning::Like),
            Meaning::Field(_) | Meaning::Nothing => Meaning::Nothing,
        }
    }

    /// Returns keys that match no field, the most frequent ones first.
    pub(super) fn strangers(&self) -> Vec<(&str, u64)> {
        let all = self.remembered.iter().filter(|(_, (meaning, _))| *meaning == Meaning::Nothing);
        let mut strangers: Vec<(&str, u64)> = all.map(|(key, (_, count))| (key.as_ref(), *count)).collect();
        strangers.sort_unstable_by_key(|(key, count)| (Reverse(*count), *key));
        strangers
    }

    /// From now on keeps keys that match no field when they come for the first time.
    pub(super) fn keep_new_strangers(&mut self) {
        self.new_strangers.get_or_insert_default();
    }

    /// Returns such keys since this was last asked.
    pub(super) fn take_new_strangers(&mut self) -> Vec<Box<str>> {
        self.new_strangers.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the fields that no object had.
    pub(super) fn absent(&self) -> Vec<usize> {
        (0..self.fields.len()).filter(|field| !self.has_met[*field]).collect()
    }
}
