//! What the values of a JSON column have in common.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field};

use super::guess::Guess;
use super::numbers::Numbers;

/// The values of one key, or of one list.
#[derive(Debug, Default)]
pub(super) struct Shape {
    has_booleans: bool,
    has_numbers: bool,
    numbers: Numbers,
    /// Whether a number is none for [`Numbers`].
    has_strange_numbers: bool,
    has_texts: bool,
    /// Whether a text is more than NaN or an infinity.
    has_words: bool,
    texts: Guess,
    items: Option<Box<Shape>>,
    members: Option<Box<Members>>,
}

/// The keys of objects in the order in which they first occur.
#[derive(Debug, Default)]
pub(super) struct Members {
    shapes: Vec<(String, Shape)>,
    places: HashMap<String, usize>,
}

impl Members {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Shape)> {
        self.shapes.iter().map(|(name, shape)| (name.as_str(), shape))
    }

    /// How many columns these are, counting the members of objects.
    pub(super) fn count(&self) -> usize {
        self.shapes.iter().map(|(_, shape)| shape.count()).sum()
    }

    /// Takes an object, which is valid JSON.
    pub(super) fn take_object(&mut self, text: &str) {
        Reader { text: text.as_bytes(), source: text, at: 0 }.object(self);
    }

    fn member(&mut self, name: &str) -> &mut Shape {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.places.insert(name.to_owned(), self.shapes.len());
                self.shapes.push((name.to_owned(), Shape::default()));
                self.shapes.len() - 1
            }
        };
        &mut self.shapes[place].1
    }
}

impl Shape {
    /// The type of a column. Texts that are all times are times.
    pub(super) fn column_type(&self) -> DataType {
        match (self.data_type(), self.texts.data_type()) {
            (DataType::Utf8, found @ (DataType::Date32 | DataType::Timestamp(..)))
                if self.has_texts && !self.has_numbers && !self.has_booleans && !self.is_nested() =>
            {
                found
            }
            (other, _) => other,
        }
    }

    /// The type within lists and objects.
    fn data_type(&self) -> DataType {
        let are_numbers = self.has_numbers && !self.has_words && !self.has_strange_numbers;
        let is_flat = self.has_booleans || self.has_numbers || self.has_texts;
        match (&self.items, &self.members) {
            (Some(items), None) if !is_flat => {
                DataType::List(Arc::new(Field::new_list_field(items.item_type(), true)))
            }
            (None, Some(members)) if !is_flat => DataType::Struct(
                members.iter().map(|(name, shape)| Field::new(name, shape.data_type(), true)).collect(),
            ),
            // Nothing else keeps all of them.
            (Some(_), _) | (_, Some(_)) => DataType::Utf8,
            (None, None) if are_numbers && !self.has_booleans => {
                let mut numbers = self.numbers.clone();
                if self.has_texts {
                    numbers.add_special();
                }
                numbers.data_type()
            }
            (None, None) if self.has_booleans && !self.has_numbers && !self.has_texts => DataType::Boolean,
            (None, None) => DataType::Utf8,
        }
    }

    /// Lists of numbers are vectors, which are of DOUBLE, unless that changes a number.
    fn item_type(&self) -> DataType {
        match self.data_type() {
            DataType::Int64 if !self.numbers.are_changed_by_double() => DataType::Float64,
            other => other,
        }
    }

    fn is_nested(&self) -> bool {
        self.items.is_some() || self.members.is_some()
    }

    fn count(&self) -> usize {
        let items = self.items.as_ref().map_or(0, |items| items.count());
        let members = self.members.as_ref().map_or(0, |members| members.count());
        (items + members).max(1)
    }

    fn text(&mut self, text: &str) {
        self.has_texts = true;
        self.has_words |= !matches!(text, "NaN" | "Infinity" | "-Infinity");
        self.texts.update(text);
    }

    fn number(&mut self, text: &str) {
        self.has_numbers = true;
        self.has_strange_numbers |= !self.numbers.update(text);
    }
}

/// Reads an object that is known to be valid.
struct Reader<'a> {
    text: &'a [u8],
    source: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> u8 {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied().unwrap_or(b'}')
    }

    /// Reads members up to the closing brace.
    fn object(&mut self, members: &mut Members) {
        self.at += 1;
        while self.peek() == b'"' {
            let key = self.string();
            let unescaped = key.contains('\\').then(|| unescaped(key));
            let shape = members.member(unescaped.as_deref().unwrap_or(key));
            self.peek();
            self.at += 1;
            self.value(shape);
            if self.peek() == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn value(&mut self, shape: &mut Shape) {
        match self.peek() {
            b'{' => self.object(shape.members.get_or_insert_default()),
            b'[' => {
                self.at += 1;
                let items = shape.items.get_or_insert_default();
                while !matches!(self.peek(), b']' | b'}') {
                    self.value(items);
                    if self.peek() == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
            }
            b'"' => {
                let text = self.string();
                if text.contains('\\') { shape.text(&unescaped(text)) } else { shape.text(text) }
            }
            b't' | b'f' => {
                shape.has_booleans = true;
                self.word();
            }
            b'n' => drop(self.word()),
            _ => {
                let number = self.word();
                shape.number(number);
            }
        }
    }

    /// A string without its quotes, as it is written.
    fn string(&mut self) -> &'a str {
        let begin = self.at + 1;
        let mut end = begin;
        while end < self.text.len() && self.text[end] != b'"' {
            end += if self.text[end] == b'\\' { 2 } else { 1 };
        }
        self.at = end + 1;
        self.source.get(begin..end).unwrap_or_default()
    }

    /// A number or a name. It moves on in any case.
    fn word(&mut self) -> &'a str {
        let begin = self.at;
        let is_part = |byte: &u8| !matches!(byte, b',' | b']' | b'}') && !byte.is_ascii_whitespace();
        self.at += self.text[begin..].iter().take_while(|byte| is_part(byte)).count().max(1);
        self.source.get(begin..self.at).unwrap_or_default()
    }
}

fn unescaped(text: &str) -> String {
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.to_owned())
}
