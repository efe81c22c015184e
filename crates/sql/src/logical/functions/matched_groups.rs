//! `regexp_match(text, pattern)` with NULL for a group that takes no part in the match, as in PostgreSQL. DataFusion's (55.2) leaves such
//! groups out, so that the others have other numbers.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::builder::{ListBuilder, StringBuilder};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use regex::{Captures, Regex};

/// The function under its own name.
pub(crate) fn regexp_match() -> ScalarUDF {
    let texts = |count| TypeSignature::Exact(vec![DataType::Utf8; count]);
    let signature = Signature::one_of(vec![texts(2), texts(3)], Volatility::Immutable);
    ScalarUDF::new_from_impl(RegexpMatch { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RegexpMatch {
    signature: Signature,
}

impl ScalarUDFImpl for RegexpMatch {
    fn name(&self) -> &str {
        "regexp_match"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let matches = matches(&arrays)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&matches, 0)?)
        } else {
            ColumnarValue::Array(matches)
        })
    }
}

fn matches(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = arguments[0].as_string::<i32>();
    let patterns = arguments[1].as_string::<i32>();
    let flags = arguments.get(2).map(|flags| flags.as_string::<i32>());
    let mut compiled: HashMap<(&str, &str), Regex> = HashMap::new();
    let mut matches = ListBuilder::new(StringBuilder::new());
    for row in 0..texts.len() {
        let is_null =
            texts.is_null(row) || patterns.is_null(row) || flags.is_some_and(|flags| flags.is_null(row));
        if is_null {
            matches.append_null();
            continue;
        }
        let key = (patterns.value(row), flags.map_or("", |flags| flags.value(row)));
        let regex = match compiled.entry(key) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(regex("regexp_match", key.0, key.1)?)
            }
        };
        match regex.captures(texts.value(row)) {
            None => matches.append_null(),
            Some(found) => append(&mut matches, &found),
        }
    }
    Ok(Arc::new(matches.finish()))
}

/// The groups of a match; without groups, the whole match.
fn append(matches: &mut ListBuilder<StringBuilder>, found: &Captures<'_>) {
    let skipped = usize::from(found.len() > 1);
    let groups = found.iter().skip(skipped);
    groups.for_each(|group| matches.values().append_option(group.map(|group| group.as_str())));
    matches.append(true);
}

/// Compiles the pattern of a function.
pub(super) fn regex(function: &str, pattern: &str, flags: &str) -> Result<Regex> {
    if let Some(unknown) = flags.chars().find(|flag| !"imsxc".contains(*flag)) {
        return exec_err!("{function}() does not know the flag '{unknown}': there are i, m, s, x and c");
    }
    // `c` is what holds anyway: letters of different case are different.
    let flags = flags.replace('c', "");
    let whole = if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
    Regex::new(&whole).or_else(|error| exec_err!("the regular expression '{pattern}' is wrong: {error}"))
}
