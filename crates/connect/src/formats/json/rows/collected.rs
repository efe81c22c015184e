//! What was read of a column, row by row: the texts of its values, and which rows they belong to.

use super::keys::Meaning;
use super::shape::{Object, Part, Shape};
use crate::formats::bad_rows::Texts;
use crate::formats::json_value::scanner::{Malformed, Scanner, Written, unescape};

/// What was read of a column, or of a part of one.
#[derive(Debug)]
pub(super) struct Collected<'a> {
    pub(super) values: Values<'a>,
    /// Rows with a value of another kind, such as a number for an object, and the value's text.
    pub(super) mismatched: Vec<(usize, &'a str)>,
}

#[derive(Debug)]
pub(super) enum Values<'a> {
    Texts(Vec<Text<'a>>),
    Objects(Objects<'a>),
    /// Lists, with their items, or maps, with their keys and values.
    Lists {
        valid: Vec<bool>,
        ends: Vec<usize>,
        items: Vec<Collected<'a>>,
    },
}

/// Objects whose keys are fields.
#[derive(Debug)]
pub(super) struct Objects<'a> {
    pub(super) valid: Vec<bool>,
    pub(super) fields: Vec<Collected<'a>>,
    /// Where the fields of the current object come from.
    origins: Vec<Origin<'a>>,
}

/// The text of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'a> {
    Null,
    Written(&'a str),
    /// A part of the decoded texts.
    Decoded(usize, usize),
}

/// Which key a field's value has.
#[derive(Clone, Copy, Debug)]
enum Origin<'a> {
    Missing,
    Exact,
    Like(&'a str),
    /// Two keys could be meant.
    Two(&'a str, &'a str),
}

impl From<Malformed> for String {
    fn from(malformed: Malformed) -> String {
        malformed.to_string()
    }
}

impl<'a> Collected<'a> {
    pub(super) fn new(part: &Part) -> Collected<'a> {
        let values = match &part.shape {
            Shape::Text => Values::Texts(Vec::new()),
            Shape::Object(object) => Values::Objects(Objects::new(object)),
            Shape::List(item) => Values::lists(std::slice::from_ref(item)),
            Shape::Map(entry) => Values::lists(entry.as_slice()),
        };
        Collected { values, mismatched: Vec::new() }
    }

    pub(super) fn rows(&self) -> usize {
        match &self.values {
            Values::Texts(texts) => texts.len(),
            Values::Objects(Objects { valid, .. }) | Values::Lists { valid, .. } => valid.len(),
        }
    }

    /// Removes all rows from this one on, also one that was not read to its end.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.mismatched.truncate(self.mismatched.partition_point(|(row, _)| *row < rows));
        match &mut self.values {
            Values::Texts(texts) => texts.truncate(rows),
            Values::Objects(objects) => objects.truncate(rows),
            Values::Lists { valid, ends, items } => {
                valid.truncate(rows);
                ends.truncate(rows);
                let end = ends.last().copied().unwrap_or(0);
                items.iter_mut().for_each(|items| items.truncate(end));
            }
        }
    }

    fn push_null(&mut self) {
        match &mut self.values {
            Values::Texts(texts) => texts.push(Text::Null),
            Values::Objects(objects) => objects.push_null(),
            Values::Lists { valid, ends, .. } => {
                valid.push(false);
                ends.push(ends.last().copied().unwrap_or(0));
            }
        }
    }

    /// Reads the value of another row.
    ///
    /// # Errors
    /// Why the row cannot be read.
    fn read(
        &mut self,
        part: &mut Part,
        scanner: &mut Scanner<'a>,
        decoded: &mut String,
    ) -> Result<(), String> {
        let row = self.rows();
        match (&mut part.shape, &mut self.values, scanner.peek()) {
            (Shape::Text, Values::Texts(texts), first) => {
                texts.push(read_text(first, scanner, decoded)?);
                return Ok(());
            }
            (Shape::Object(object), Values::Objects(objects), Some(b'{')) => {
                return objects.read(object, scanner, decoded).map(drop);
            }
            (Shape::List(item), Values::Lists { valid, ends, items }, Some(b'[')) => {
                let mut continues = scanner.enter(b'[', b']')?;
                while continues {
                    items[0].read(item, scanner, decoded)?;
                    continues = scanner.continues(b']')?;
                }
                valid.push(true);
                ends.push(items[0].rows());
                return Ok(());
            }
            (Shape::Map(entry), Values::Lists { valid, ends, items }, Some(b'{')) => {
                let mut continues = scanner.enter(b'{', b'}')?;
                while continues {
                    let key = scanner.key()?;
                    if let Values::Texts(keys) = &mut items[0].values {
                        keys.push(Text::of(key, decoded)?);
                    }
                    items[1].read(&mut entry[1], scanner, decoded)?;
                    continues = scanner.continues(b'}')?;
                }
                valid.push(true);
                ends.push(items[1].rows());
                return Ok(());
            }
            _ => {}
        }
        let text = scanner.value()?;
        if text != "null" {
            self.mismatched.push((row, text));
        }
        self.push_null();
        Ok(())
    }
}

impl<'a> Values<'a> {
    fn lists(items: &[impl std::borrow::Borrow<Part>]) -> Values<'a> {
        let items = items.iter().map(|part| Collected::new(part.borrow())).collect();
        Values::Lists { valid: Vec::new(), ends: Vec::new(), items }
    }
}

impl<'a> Objects<'a> {
    pub(super) fn new(object: &Object) -> Objects<'a> {
        let fields: Vec<Collected<'a>> = object.parts.iter().map(Collected::new).collect();
        Objects { valid: Vec::new(), origins: vec![Origin::Missing; fields.len()], fields }
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        self.fields.iter_mut().for_each(|field| field.truncate(rows));
    }

    fn push_null(&mut self) {
        self.valid.push(false);
        self.fields.iter_mut().for_each(Collected::push_null);
    }

    /// Reads another object; returns whether one of its keys is a field, or it has no keys.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) fn read(
        &mut self,
        object: &mut Object,
        scanner: &mut Scanner<'a>,
        decoded: &mut String,
    ) -> Result<bool, String> {
        let row = self.valid.len();
        self.origins.fill(Origin::Missing);
        let mut expected = 0;
        let mut continues = scanner.enter(b'{', b'}')?;
        let mut has_fields = !continues;
        while continues {
            let key = scanner.key()?;
            let mut meaning = if key.has_escapes {
                let mut name = String::new();
                unescape(key, &mut name)?;
                object.keys.meaning(&name, expected)
            } else {
                object.keys.meaning(key.text, expected)
            };
            let (value, mut is_read) = (*scanner, false);
            while meaning != Meaning::Nothing {
                if let Some(field) = self.source_of(meaning, key.text) {
                    *scanner = value;
                    // The last value counts.
                    self.fields[field].truncate(row);
                    self.fields[field].read(&mut object.parts[field], scanner, decoded)?;
                    expected = field + 1;
                    is_read = true;
                }
                meaning = object.keys.next_alike(meaning);
            }
            has_fields |= is_read;
            if !is_read {
                scanner.value()?;
            }
            continues = scanner.continues(b'}')?;
        }
        for ((origin, collected), field) in self.origins.iter().zip(&mut self.fields).zip(&object.keys.fields)
        {
            match origin {
                Origin::Missing => collected.push_null(),
                Origin::Exact | Origin::Like(_) => {}
                Origin::Two(one, other) => {
                    let name = field.name();
                    return Err(format!("column '{name}': both '{one}' and '{other}' could be its key"));
                }
            }
        }
        self.valid.push(true);
        Ok(has_fields)
    }

    /// The field that the value of this key is for, and notes that it comes from there.
    fn source_of(&mut self, meaning: Meaning, key: &'a str) -> Option<usize> {
        let (field, origin) = match meaning {
            Meaning::Nothing => return None,
            Meaning::Field(field) => (field, Origin::Exact),
            Meaning::Like(field) => match self.origins[field] {
                Origin::Missing => (field, Origin::Like(key)),
                Origin::Like(other) if other == key => (field, Origin::Like(key)),
                Origin::Like(other) => {
                    self.origins[field] = Origin::Two(other, key);
                    return None;
                }
                Origin::Exact | Origin::Two(..) => return None,
            },
        };
        self.origins[field] = origin;
        Some(field)
    }
}

impl<'a> Text<'a> {
    fn of(written: Written<'a>, decoded: &mut String) -> Result<Text<'a>, Malformed> {
        if !written.has_escapes {
            return Ok(Text::Written(written.text));
        }
        let start = decoded.len();
        unescape(written, decoded)?;
        Ok(Text::Decoded(start, decoded.len()))
    }
}

/// Reads the text of a value: of an object or a list, as it is written.
#[inline]
fn read_text<'a>(
    first: Option<u8>,
    scanner: &mut Scanner<'a>,
    decoded: &mut String,
) -> Result<Text<'a>, Malformed> {
    match first {
        Some(b'"') => Text::of(scanner.string()?, decoded),
        Some(b'{' | b'[') => scanner.value().map(Text::Written),
        _ => Ok(match scanner.word()? {
            "null" => Text::Null,
            word => Text::Written(word),
        }),
    }
}

/// The texts of a part.
pub(super) struct PartTexts<'a> {
    pub(super) texts: &'a [Text<'a>],
    pub(super) decoded: &'a str,
}

impl Texts for PartTexts<'_> {
    fn rows(&self) -> usize {
        self.texts.len()
    }

    #[inline]
    fn get(&self, row: usize) -> Option<&str> {
        match self.texts[row] {
            Text::Null => None,
            Text::Written(text) => Some(text),
            Text::Decoded(start, end) => Some(&self.decoded[start..end]),
        }
    }
}
