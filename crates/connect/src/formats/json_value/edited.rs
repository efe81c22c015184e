//! JSON values that are changed, as the operators and functions of PostgreSQL's JSONB change them.

use super::tree::Json;

/// Where a new value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonPlace {
    /// In the place of the value that is there; behind the others if `creates` and there is none.
    Replaced {
        /// Whether a member or an item that is not there comes into being.
        creates: bool,
    },
    /// Before or behind an item of a list, or as a member that is not there.
    Inserted {
        /// Behind the item.
        after: bool,
    },
}

impl Json {
    /// Returns the value with another one: two objects become one, in which the members of the other count, and anything else a list.
    ///
    /// ```
    /// use tidemill_connect::formats::Json;
    /// let joined = |one, other| Json::parse(one).unwrap().joined(Json::parse(other).unwrap()).to_string();
    /// assert_eq!(joined(r#"{"a": 1, "b": 1}"#, r#"{"b": 2}"#), r#"{"a": 1, "b": 2}"#);
    /// assert_eq!(joined("[1]", r#"{"b": 2}"#), r#"[1, {"b": 2}]"#);
    /// ```
    #[must_use]
    pub fn joined(self, other: Json) -> Json {
        let items = |value| match value {
            Json::List(items) => items,
            other => vec![other],
        };
        match (self, other) {
            (Json::Object(mut members), Json::Object(others)) => {
                members.extend(others);
                Json::object(members)
            }
            (one, other) => {
                let mut joined = items(one);
                joined.extend(items(other));
                Json::List(joined)
            }
        }
    }

    /// Returns whether an object has a key, a list has a text as an item, or a text is this one.
    pub fn has(&self, key: &str) -> bool {
        match self {
            Json::List(items) => items.iter().any(|item| matches!(item, Json::Text(text) if text == key)),
            Json::Text(text) => text == key,
            other => other.member(key).is_some(),
        }
    }

    /// Returns the value without some keys of an object, or some texts of a list.
    ///
    /// # Errors
    /// If it is neither.
    pub fn without(self, keys: &[&str]) -> Result<Json, String> {
        Ok(match self {
            Json::Object(mut members) => {
                members.retain(|(key, _)| !keys.contains(&key.as_str()));
                Json::Object(members)
            }
            Json::List(mut items) => {
                items.retain(|item| !matches!(item, Json::Text(text) if keys.contains(&text.as_str())));
                Json::List(items)
            }
            _ => return Err("cannot delete from scalar".to_owned()),
        })
    }

    /// Returns a list without an item; negative numbers count from the end.
    ///
    /// # Errors
    /// If it is not a list.
    pub fn without_item(self, index: i64) -> Result<Json, String> {
        match self {
            Json::List(mut items) => {
                if let Some(place) = place_of(index, items.len()) {
                    items.remove(place);
                }
                Ok(Json::List(items))
            }
            Json::Object(_) => Err("cannot delete from object using integer index".to_owned()),
            _ => Err("cannot delete from scalar".to_owned()),
        }
    }

    /// Returns the value without what a path leads to.
    ///
    /// # Errors
    /// If it is neither an object nor a list, or a step to an item is not a number.
    ///
    /// ```
    /// use tidemill_connect::formats::Json;
    /// let value = Json::parse(r#"{"a": [1, 2, 3]}"#).unwrap();
    /// assert_eq!(value.without_at(&["a", "-1"]).unwrap().to_string(), r#"{"a": [1, 2]}"#);
    /// ```
    pub fn without_at(mut self, path: &[&str]) -> Result<Json, String> {
        if !matches!(self, Json::Object(_) | Json::List(_)) {
            return Err("cannot delete path in scalar".to_owned());
        }
        if let Some((last, way)) = path.split_last() {
            match self.inner(way)? {
                Some(Json::Object(members)) => members.retain(|(key, _)| key != last),
                Some(Json::List(items)) => {
                    if let Some(place) = place_of(number(last, path.len())?, items.len()) {
                        items.remove(place);
                    }
                }
                _ => {}
            }
        }
        Ok(self)
    }

    /// Returns the value with a new one where a path leads to.
    ///
    /// # Errors
    /// If it is neither an object nor a list, a step to an item is not a number, or a member is inserted that is there.
    ///
    /// ```
    /// use tidemill_connect::formats::{Json, JsonPlace};
    /// let value = || Json::parse(r#"{"a": [1, 2]}"#).unwrap();
    /// let new = || Json::parse("9").unwrap();
    /// let set = value().with_at(&["a", "0"], new(), JsonPlace::Replaced { creates: true });
    /// assert_eq!(set.unwrap().to_string(), r#"{"a": [9, 2]}"#);
    /// let inserted = value().with_at(&["a", "0"], new(), JsonPlace::Inserted { after: true });
    /// assert_eq!(inserted.unwrap().to_string(), r#"{"a": [1, 9, 2]}"#);
    /// ```
    pub fn with_at(mut self, path: &[&str], new: Json, place: JsonPlace) -> Result<Json, String> {
        if !matches!(self, Json::Object(_) | Json::List(_)) {
            return Err("cannot set path in scalar".to_owned());
        }
        let Some((last, way)) = path.split_last() else { return Ok(self) };
        match self.inner(way)? {
            Some(Json::Object(members)) => put_member(members, last, new, place)?,
            Some(Json::List(items)) => put_item(items, number(last, path.len())?, new, place),
            _ => {}
        }
        Ok(self)
    }

    /// What a path leads to, to be changed; `None` if there is nothing.
    fn inner(&mut self, path: &[&str]) -> Result<Option<&mut Json>, String> {
        let mut value = self;
        for (place, step) in path.iter().enumerate() {
            let next = match value {
                Json::Object(members) => {
                    members.iter_mut().find(|(key, _)| key == step).map(|(_, value)| value)
                }
                Json::List(items) => {
                    place_of(number(step, place + 1)?, items.len()).map(|index| &mut items[index])
                }
                _ => None,
            };
            match next {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }
}

fn put_member(
    members: &mut Vec<(String, Json)>,
    key: &str,
    new: Json,
    place: JsonPlace,
) -> Result<(), String> {
    let known = members.iter().position(|(name, _)| name == key);
    match (known, place) {
        (Some(known), JsonPlace::Replaced { .. }) => members[known].1 = new,
        (Some(_), JsonPlace::Inserted { .. }) => {
            return Err(format!("cannot replace existing key '{key}'; jsonb_set replaces it"));
        }
        (None, JsonPlace::Replaced { creates: false }) => {}
        (None, _) => {
            members.push((key.to_owned(), new));
            if let Json::Object(sorted) = Json::object(std::mem::take(members)) {
                *members = sorted;
            }
        }
    }
    Ok(())
}

fn put_item(items: &mut Vec<Json>, index: i64, new: Json, place: JsonPlace) {
    match (place_of(index, items.len()), place) {
        (Some(known), JsonPlace::Replaced { .. }) => items[known] = new,
        (Some(known), JsonPlace::Inserted { after }) => items.insert(known + usize::from(after), new),
        (None, JsonPlace::Replaced { creates: false }) => {}
        (None, _) => items.insert(if index < 0 { 0 } else { items.len() }, new),
    }
}

/// The place of an item, of which there are so many; `None` if there is no such item.
fn place_of(index: i64, items: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(i64::try_from(items).ok()?)? } else { index };
    usize::try_from(index).ok().filter(|place| *place < items)
}

fn number(step: &str, position: usize) -> Result<i64, String> {
    let wrong = || format!("path element at position {position} is not an integer: \"{step}\"");
    step.trim().parse::<i32>().map(i64::from).map_err(|_| wrong())
}
