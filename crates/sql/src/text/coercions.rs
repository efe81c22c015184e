//! Sentences of the planner about types that do not go together, in plain language.

use super::sentences::{Wording, between};
use super::types::sql_types;

/// Rewords a sentence about values that need one type, or another one than they have.
pub(super) fn reword(text: &str) -> Option<Wording> {
    // Behind the reason comes the signature, which says nothing more.
    let text = [". No function matches", ".\nThis issue was likely", "\n\nThis issue was likely"]
        .iter()
        .fold(text, |text, end| text.split(end).next().unwrap_or(text));
    results_of_case(text)
        .or_else(|| arguments_of_one_type(text))
        .or_else(|| lists(text))
        .or_else(|| fields(text))
        .or_else(|| orders(text))
        .or_else(|| operators(text))
}

fn wording(message: String, hint: &str, at: &str) -> Option<Wording> {
    Some(Wording { message, hint: Some(hint.to_owned()), at: Some(at.to_owned()) })
}

const ONE_TYPE: &str = "give all of them one type with CAST(... AS ...)";

/// The results of CASE, and what it compares.
fn results_of_case(text: &str) -> Option<Wording> {
    let (what, types) =
        if let Some(types) = between(text, "ailed to coerce then ", " to common types in CASE") {
            let (then, otherwise) = types.split_once(" and else ").unwrap_or((types, ""));
            ("the results of a CASE have", [then, otherwise])
        } else {
            let types = between(text, "ailed to coerce case ", " to common types in CASE")?;
            let (base, when) = types.split_once(" and when ").unwrap_or((types, ""));
            ("what a CASE compares has", [base, when])
        };
    let inner = |one: &str| {
        one.strip_prefix('(')
            .and_then(|one| one.strip_suffix(')'))
            .map_or_else(|| one.to_owned(), str::to_owned)
    };
    let types = types.map(|one| sql_types(&inner(one)));
    let types: Vec<String> = types.into_iter().filter(|one| !one.is_empty() && one != "None").collect();
    wording(format!("{what} no common type: {}", types.join(" and ")), ONE_TYPE, "CASE")
}

/// A function whose arguments must be of one type, and LIKE.
fn arguments_of_one_type(text: &str) -> Option<Wording> {
    if let Some(types) = between(text, "a common type to coerce ", " in LIKE expression") {
        let message = format!("LIKE compares texts, but got {}", sql_types(types));
        return wording(message, "convert the other side with CAST(... AS VARCHAR)", "LIKE");
    }
    if let Some(types) = text.strip_prefix("Can not find compatible types to compare ") {
        let message = format!("cannot compare {}", sql_types(types));
        return wording(message, "convert one side with CAST(... AS ...)", "IN");
    }
    if let Some((_, types)) = text.split_once("For function 'nullif' ") {
        let types = types.strip_suffix(" is not comparable").unwrap_or(types);
        return wording(format!("cannot compare {}", sql_types(types)), ONE_TYPE, "nullif");
    }
    let name = between(text, "unction '", "' user-defined coercion failed with: ")?;
    let (_, reason) = text.rsplit_once(" failed with: ")?;
    let reason = ["Execution error: ", "Error during planning: ", "External error: ", "Internal error: "]
        .iter()
        .fold(reason, |reason, prefix| reason.strip_prefix(prefix).unwrap_or(reason));
    let is_about_types =
        ["common type", "coerced type", "unify argument types"].iter().any(|words| reason.contains(words));
    if let Some(wording) = lists(reason) {
        return Some(wording);
    }
    let name = if name == "make_array" { "ARRAY" } else { name };
    if is_about_types {
        let message = if name == "ARRAY" {
            "the items of a list have no common type".to_owned()
        } else {
            format!("the arguments of `{name}` have no common type")
        };
        return wording(message, ONE_TYPE, name);
    }
    let (message, hint) = match reason.split_once("; ") {
        Some((message, hint)) => (message, Some(hint.to_owned())),
        None => (reason, None),
    };
    let written = if name == "date_part" { "extract" } else { name };
    Some(Wording { message: sql_types(message), hint, at: Some(written.to_owned()) })
}

/// A function of lists that is given something else.
fn lists(text: &str) -> Option<Wording> {
    let name = between(text, "satisfy a call to '", "' function: coercion from ")?;
    let types = between(text, " function: coercion from ", " to the signature ")?;
    let (message, hint) = match name {
        "array_has" | "cardinality" => (
            format!("ANY, ALL and functions of lists need a list, but got {}", sql_types(types)),
            "write the values as a list, ARRAY[1, 2], or as a query in parentheses",
        ),
        "array_append" | "array_prepend" | "array_concat" => (
            format!("a list and another value that is not of the type of its items: {}", sql_types(types)),
            "convert the value with CAST(... AS ...)",
        ),
        name => (
            format!("`{name}` does not take {}", sql_types(types)),
            "convert the arguments with CAST(... AS ...)",
        ),
    };
    wording(message, hint, name)
}

/// A field of what has none.
fn fields(text: &str) -> Option<Wording> {
    let (_, rest) = text.split_once("annot access field at argument ")?;
    let found = between(rest, ": type ", " is not Struct")?;
    let message = format!("a value of type {} has no fields", sql_types(found));
    Some(Wording {
        message,
        hint: Some("only a STRUCT and a MAP have fields; an item of a list is list[1]".to_owned()),
        at: None,
    })
}

/// Orders that have no meaning.
fn orders(text: &str) -> Option<Wording> {
    if text.contains("not yet implemented for GROUPING") {
        let message =
            "grouping() says which columns of GROUPING SETS a row has, and takes no OVER".to_owned();
        return wording(message, "group by GROUPING SETS, ROLLUP or CUBE, and remove OVER", "grouping");
    }
    if let Some((_, found)) = text.split_once("annot run range queries on datatype: ") {
        let found = sql_types(found.trim_end_matches('.'));
        let message = format!("ORDER BY within OVER needs values that have an order, but got {found}");
        return wording(
            message,
            "order by a part of the value, or write ROWS BETWEEN ... for the frame",
            "OVER",
        );
    }
    let (_, found) = text.split_once("Min/Max accumulator not implemented for type ")?;
    let message = format!("min and max are not defined for values of type {}", sql_types(found));
    wording(message, "apply them to a part of the value, or to CAST(... AS VARCHAR)", "max")
}

/// Operators that the language does not have.
fn operators(text: &str) -> Option<Wording> {
    let (_, operator) = text.split_once("nsupported binary operator: ")?;
    let symbol = operator.rsplit('"').nth(1).unwrap_or(operator);
    Some(Wording {
        message: format!("the operator {symbol} is not part of the language"),
        hint: Some("write it as a function; SHOW FUNCTIONS lists all of them".to_owned()),
        at: Some(symbol.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_do_not_go_together_are_named_as_in_sql() {
        let cases = [
            (
                "Failed to coerce then (Timestamp(ns)) and else (List(Int64)) to common types in CASE WHEN expression",
                "the results of a CASE have no common type: TIMESTAMP and BIGINT[]",
            ),
            (
                "There isn't a common type to coerce Utf8 and Int64 in LIKE expression",
                "LIKE compares texts, but got VARCHAR and BIGINT",
            ),
            (
                "Function 'greatest' user-defined coercion failed with: Error during planning: Cannot find a common \
                 type for arguments to greatest",
                "the arguments of `greatest` have no common type",
            ),
            (
                "Cannot access field at argument 1: type Int64 is not Struct, Map, or Null",
                "a value of type BIGINT has no fields",
            ),
            (
                "Unsupported binary operator: PGCustomBinaryOperator([\"pg_catalog\", \"<->\"])",
                "the operator <-> is not part of the language",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(reword(text).map(|wording| wording.message).as_deref(), Some(expected), "{text}");
        }
        assert!(reword("something else").is_none());
    }
}
