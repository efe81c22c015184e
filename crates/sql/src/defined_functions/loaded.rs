//! Functions whose code is loaded, by their names in plans.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use super::LoadedOperator;

/// Between the name of a function and the digest of its code, in plans.
pub(crate) const DIGEST_MARK: char = '@';
/// How many digits of the digest are in the name.
const DIGITS: usize = 24;

/// The name of a function in plans. It is made of its own and of what it computes, because plans as text say which queries
/// compute the same.
pub(crate) fn name_in_plans(shown: &str, digest: &str) -> String {
    format!("{shown}{DIGEST_MARK}{}", &digest[..DIGITS.min(digest.len())])
}

/// A text for people, in which functions have the names that they were given.
pub(crate) fn without_digests(text: &str) -> String {
    let mut parts = text.split(DIGEST_MARK);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        if digits == DIGITS {
            plain.push_str(&part[DIGITS..])
        } else {
            plain.extend([DIGEST_MARK.to_string().as_str(), part])
        }
    }
    plain
}

/// Whether only plans have this name.
pub(super) fn is_in_plans(name: &str) -> bool {
    name.contains(DIGEST_MARK)
}

/// The name that a function was given, if this is its name in plans.
pub(crate) fn shown(name: &str) -> &str {
    name.split_once(DIGEST_MARK).map_or(name, |(shown, _)| shown)
}

/// A function whose code is loaded.
#[derive(Clone, Debug)]
pub(crate) enum Loaded {
    Scalar(Arc<ScalarUDF>),
    Aggregate(Arc<AggregateUDF>),
    Operator(Arc<LoadedOperator>),
}

impl Loaded {
    /// Its name in plans.
    pub fn name(&self) -> &str {
        match self {
            Loaded::Scalar(function) => function.name(),
            Loaded::Aggregate(function) => function.name(),
            Loaded::Operator(operator) => &operator.name,
        }
    }
}

/// The functions by their names in plans, as long as definitions or plans hold them. One that is replaced stays for what
/// was defined with it.
#[derive(Clone, Default)]
pub(crate) struct LoadedFunctions {
    scalar: Held<ScalarUDF>,
    aggregate: Held<AggregateUDF>,
    operator: Held<LoadedOperator>,
}

impl LoadedFunctions {
    /// The scalar function of a name.
    pub fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalar.get(name)
    }

    /// The aggregate of a name.
    pub fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.aggregate.get(name)
    }

    /// The operator of a name.
    pub fn operator(&self, name: &str) -> Option<Arc<LoadedOperator>> {
        self.operator.get(name)
    }

    /// Adds a function. The name says what it computes, so one of the same name that is there is the same, and is kept.
    pub fn add(&mut self, function: Loaded) -> Loaded {
        let name = function.name().to_owned();
        match function {
            Loaded::Scalar(function) => Loaded::Scalar(self.scalar.add(name, function)),
            Loaded::Aggregate(function) => Loaded::Aggregate(self.aggregate.add(name, function)),
            Loaded::Operator(operator) => Loaded::Operator(self.operator.add(name, operator)),
        }
    }
}

/// Functions of one kind, of which this holds none itself.
struct Held<T>(BTreeMap<String, Weak<T>>);

impl<T> Held<T> {
    fn get(&self, name: &str) -> Option<Arc<T>> {
        self.0.get(name)?.upgrade()
    }

    fn add(&mut self, name: String, function: Arc<T>) -> Arc<T> {
        self.0.retain(|_, held| held.strong_count() > 0);
        if let Some(same) = self.get(&name) {
            return same;
        }
        self.0.insert(name, Arc::downgrade(&function));
        function
    }
}

impl fmt::Debug for LoadedFunctions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoadedFunctions").finish_non_exhaustive()
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Held(self.0.clone())
    }
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Held(BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_no_digests() {
        let name = name_in_plans("f", &"0123456789abcdef".repeat(4));
        assert_eq!(name, "f@0123456789abcdef01234567");
        assert_eq!(shown(&name), "f");
        assert_eq!(without_digests(&format!("{name}({name}(x)), a@b.c")), "f(f(x)), a@b.c");
    }

    #[test]
    fn what_nothing_holds_is_gone() {
        let mut functions = Held::default();
        let (held, dropped) =
            (functions.add("held".to_owned(), Arc::new(1)), functions.add("dropped".to_owned(), Arc::new(2)));
        assert!(Arc::ptr_eq(&held, &functions.add("held".to_owned(), Arc::new(3))));
        assert!(functions.get("dropped").is_some_and(|found| Arc::ptr_eq(&found, &dropped)));
        drop(dropped);
        assert!(functions.get("dropped").is_none() && functions.get("held").is_some());
        let _other = functions.add("other".to_owned(), Arc::new(4));
        assert_eq!(functions.0.keys().collect::<Vec<_>>(), ["held", "other"]);
    }
}
