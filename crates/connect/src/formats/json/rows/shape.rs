//! What a column is made of: values that are read from text, and the lists, objects and maps around them.

use std::collections::HashMap;

use arrow_schema::{DataType, Field};
use tidemill_core::error::Cause;

use super::keys::Keys;
use crate::formats::{sql_type, values};

/// A column, or a part of one.
#[derive(Debug)]
pub(super) struct Part {
    /// The declared field, with the whole path as its name: `after.qty`, `items[].qty`. A part of a value may be NULL.
    pub(super) field: Field,
    /// Whether it must have a value where there is a value around it.
    pub(super) is_required: bool,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    /// Read from the value's text.
    Text,
    /// An object whose keys are fields.
    Object(Box<Object>),
    List(Box<Part>),
    /// An object whose keys are values, too.
    Map(Box<[Part; 2]>),
}

/// The fields of an object: their names, and what they are made of.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) keys: Keys,
    pub(super) parts: Vec<Part>,
}

/// Fields that no object had, and keys that match no field, with how often they came.
#[derive(Debug, Default)]
pub(super) struct Absences {
    pub(super) fields: Vec<String>,
    pub(super) keys: Vec<(String, u64)>,
}

impl Object {
    /// Finds objects that lack a field and have keys that match no field: one of these may be meant.
    pub(super) fn find_absences(&self, path: &str, found: &mut Absences) {
        let absent = self.keys.absent();
        let strangers = if absent.is_empty() { Vec::new() } else { self.keys.strangers() };
        if !strangers.is_empty() {
            found.fields.extend(absent.into_iter().map(|field| self.parts[field].field.name().clone()));
            found.keys.extend(strangers.into_iter().map(|(key, count)| (format!("{path}{key}"), count)));
        }
        self.parts.iter().for_each(|part| part.find_absences(found));
    }
}

impl Part {
    /// Makes the part for a column.
    ///
    /// # Errors
    /// [`Cause::user`] if it has a type that JSON cannot represent.
    pub(super) fn column(field: &Field) -> Result<Part, Cause> {
        // What a column says about its values holds for those within it.
        let part = Part::new("", field, field.metadata())?;
        Ok(Part { field: part.field.with_nullable(field.is_nullable()), is_required: false, ..part })
    }

    fn new(path: &str, field: &Field, about: &HashMap<String, String>) -> Result<Part, Cause> {
        let path = format!("{path}{}", field.name());
        let shape = match field.data_type() {
            DataType::Struct(fields) => {
                let parts = fields.iter().map(|field| Part::new(&format!("{path}."), field, about));
                let parts = parts.collect::<Result<Vec<_>, Cause>>()?;
                Shape::Object(Box::new(Object { keys: Keys::new(fields.iter().cloned().collect()), parts }))
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Shape::List(Box::new(Part::new(&path, &item.as_ref().clone().with_name("[]"), about)?))
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    let part = |at: usize| Part::new(&format!("{path}."), &fields[at], about);
                    Shape::Map(Box::new([part(0)?, part(1)?]))
                }
                _ => return Err(unsupported(&path, field)),
            },
            data_type if values::is_supported(data_type) => Shape::Text,
            _ => return Err(unsupported(&path, field)),
        };
        let is_required = !field.is_nullable();
        let field = field.clone().with_name(path).with_nullable(true).with_metadata(about.clone());
        Ok(Part { field, is_required, shape })
    }

    fn find_absences(&self, found: &mut Absences) {
        match &self.shape {
            Shape::Text => {}
            Shape::Object(object) => object.find_absences(&format!("{}.", self.field.name()), found),
            Shape::List(item) => item.find_absences(found),
            Shape::Map(entry) => entry[1].find_absences(found),
        }
    }
}

fn unsupported(path: &str, field: &Field) -> Cause {
    Cause::user(format!(
        "column '{path}': JSON cannot contain values of type {}",
        sql_type(field.data_type())
    ))
}
