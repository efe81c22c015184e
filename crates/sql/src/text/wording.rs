//! Rewords the planner's sentences in plain language.

use std::borrow::Cow;

use datafusion::arrow::temporal_conversions::timestamp_ns_to_datetime;
use datafusion::error::DataFusionError;

use super::coercions;
pub(crate) use super::sentences::{Wording, between};
pub(crate) use super::types::{sql_casts, sql_types};

/// Rewords a sentence of the planner; an unknown sentence stays as it is, without prefixes.
pub(crate) fn reword(text: &str) -> Wording {
    let text = clean(text);
    known(&text).unwrap_or_else(|| unknown(&text))
}

/// Rewords a sentence that is known.
pub(crate) fn reword_known(text: &str) -> Option<Wording> {
    known(&clean(text))
}

fn known(text: &str) -> Option<Wording> {
    coercions::reword(text)
        .or_else(|| arguments(text))
        .or_else(|| types_do_not_fit(text))
        .or_else(|| one_type(text))
        .or_else(|| operands(text))
        .or_else(|| clauses(text))
        .or_else(|| values(text))
}

/// A function with arguments that it does not accept.
fn arguments(text: &str) -> Option<Wording> {
    let call = between(text, "given name and argument types '", "'. You might")?;
    let (name, types) = call.split_once('(')?;
    let (_, candidates) = text.split_once("Candidate functions:")?;
    let mut forms: Vec<String> =
        candidates.lines().map(str::trim).filter(|form| !form.is_empty()).map(sql_types).collect();
    forms.dedup();
    let is_own = forms.iter().any(|form| form.contains("UserDefined"));
    let given = sql_types(types);
    let nothing = given.trim_start().starts_with(')');
    let (message, hint) = match (nothing, is_own) {
        (true, true) => (format!("`{name}` needs arguments"), None),
        (true, false) => {
            (format!("`{name}` needs arguments"), Some(format!("it takes {}", forms.join(", "))))
        }
        // Its signature says no more.
        (false, true) => (
            format!("`{name}` does not take ({given} together"),
            Some("give all of them one type with CAST(... AS ...)".to_owned()),
        ),
        (false, false) => {
            (format!("`{name}` does not take ({given}"), Some(format!("it takes {}", forms.join(", "))))
        }
    };
    Some(Wording { message, hint, at: Some(name.to_owned()) })
}

/// A function of one type that is given another one.
fn one_type(text: &str) -> Option<Wording> {
    let (_, rest) = text.split_once("Function '")?;
    let (name, rest) = rest.split_once('\'')?;
    let (wanted, _) = rest.strip_prefix(" requires ")?.split_once(", but received ")?;
    let given = between(rest, "(DataType: ", ")").map_or_else(|| "another type".to_owned(), sql_types);
    Some(Wording {
        message: format!("`{name}` takes {}, but got {given}", sql_types(wanted)),
        hint: Some("convert it with CAST(... AS ...)".to_owned()),
        at: Some(name.to_owned()),
    })
}

/// Types that do not fit.
fn operands(text: &str) -> Option<Wording> {
    let convert = Some("convert one side with CAST(... AS ...)".to_owned());
    if let Some(types) = between(text, "Cannot coerce arithmetic expression ", " to valid types") {
        let message = format!("cannot calculate {}", sql_types(types));
        return Some(Wording { message, hint: convert, at: None });
    }
    if let Some((_, types)) = text.split_once("Cannot infer common argument type for comparison operation ") {
        return Some(Wording {
            message: format!("cannot compare {}", sql_types(types)),
            hint: convert,
            at: None,
        });
    }
    if let Some(condition) = between(text, "non-boolean predicate '", "' returning ") {
        let (_, found) = text.rsplit_once("' returning ")?;
        let (condition, found) = (sql_types(&plain_values(condition)), sql_types(found));
        let message = format!("a condition must be a boolean, but `{condition}` is of type {found}");
        return Some(Wording { message, hint: None, at: Some("WHERE".to_owned()) });
    }
    if let Some((what, found)) = text.split_once(" must be boolean type, but got ") {
        // A list is written as the program has it, of which only the beginning says anything.
        let is_written_out = found.contains("Field {");
        let found = if is_written_out {
            found.split('(').next().unwrap_or(found).to_uppercase()
        } else {
            sql_types(found)
        };
        let at = if what.starts_with("Join") { "ON" } else { "WHERE" };
        let message = format!("a condition must be a boolean, but this one is a {found}");
        return Some(Wording { message, hint: None, at: Some(at.to_owned()) });
    }
    let (_, types) = text.split_once("Incompatible inputs for Union: Previous inputs were of type ")?;
    let (first, rest) = types.split_once(", but got incompatible type ")?;
    let (second, column) = rest.split_once(" on column ")?;
    let (first, second) = (sql_types(first), sql_types(second));
    Some(Wording {
        message: format!("the parts of a UNION differ in column {column}: {first} and {second}"),
        hint: convert,
        at: Some("UNION".to_owned()),
    })
}

/// Parts of a query that cannot be combined.
fn clauses(text: &str) -> Option<Wording> {
    if text.contains("must appear in the GROUP BY clause") {
        let column = between(text, "column \"", "\"")?;
        let last = column.rsplit('.').next().unwrap_or(column);
        return Some(Wording {
            message: format!("column `{column}` is neither in GROUP BY nor inside an aggregate"),
            hint: Some(format!("add it to GROUP BY, or take one value per group, such as max({last})")),
            at: Some(last.to_owned()),
        });
    }
    if text.starts_with("Aggregate functions are not allowed in the WHERE clause") {
        return Some(Wording {
            message: "WHERE cannot contain aggregates, because it is applied before they are computed"
                .to_owned(),
            hint: Some("use HAVING".to_owned()),
            at: Some("WHERE".to_owned()),
        });
    }
    if text.contains("unique expression names") {
        let first = between(text, "the expression \"", "\" at position")?;
        let second = between(text, " and \"", "\" at position")?;
        let name = second.rsplit(" AS ").next().unwrap_or(second);
        return Some(Wording {
            message: format!(
                "two columns have the same name: {} and {}",
                plain_values(first),
                plain_values(second)
            ),
            hint: Some("rename one of them with AS".to_owned()),
            at: Some(name.rsplit('.').next().unwrap_or(name).to_owned()),
        });
    }
    None
}

/// Types and values.
fn values(text: &str) -> Option<Wording> {
    if let Some((_, name)) = text.split_once("Unsupported SQL type ") {
        let message = format!("unknown type `{name}`");
        let hint = Some("types are BIGINT, DOUBLE, VARCHAR, BOOLEAN, TIMESTAMP, DATE and others".to_owned());
        return Some(Wording { message, hint, at: Some(name.to_owned()) });
    }
    if let Some((message, hint)) = misplaced(text) {
        return Some(Wording { message: message.to_owned(), hint: Some(hint.to_owned()), at: None });
    }
    if let Some((_, column)) =
        text.split_once("Nested identifiers are not yet supported for OuterReferenceColumn ")
    {
        return Some(Wording {
            message: format!("cannot take part of `{column}`, which is a column of the outer query"),
            hint: Some("name the part in a subquery of the outer query, and use that name".to_owned()),
            at: None,
        });
    }
    // The tree of the parser, as its programmers see it.
    let (_, node) = text.split_once("Unsupported ast node ")?;
    let node = node.strip_prefix("in sqltorel: ").unwrap_or(node);
    let name = node.split([' ', '{', '(']).next()?.to_owned();
    Some(Wording {
        message: format!("{} is not supported here", name.to_uppercase()),
        hint: None,
        at: Some(name),
    })
}

/// Expressions that cannot be computed where they are, with an alternative.
fn misplaced(text: &str) -> Option<(&'static str, &'static str)> {
    if text.contains("should be rewritten to LogicalPlan::Unnest") {
        return Some((
            "UNNEST is not allowed here",
            "unnest in a subquery: FROM (SELECT unnest(list) AS x FROM t)",
        ));
    }
    if text.contains("Unsupported LIMIT expression") {
        return Some(("LIMIT and OFFSET take a number", "write a literal number"));
    }
    let (_, node) = text.split_once("Physical plan does not support logical expression ")?;
    Some(match node {
        node if node.starts_with("Wildcard") => {
            ("* is not allowed here", "name a column; * is allowed only in SELECT and in count(*)")
        }
        node if node.starts_with("Window") => {
            ("a function with OVER is not allowed here", "compute it in a subquery, and give it a name")
        }
        node if node.starts_with("Aggregate") => {
            ("an aggregate is not allowed here", "compute it in a subquery, and give it a name")
        }
        _ => ("a subquery is not allowed here", "write it as a join"),
    })
}

/// A function or an operator with types that it does not accept, which the planner reports as an internal error.
pub(crate) fn types_do_not_fit(text: &str) -> Option<Wording> {
    let text = clean(text);
    if let Some(types) = between(&text, "Failed to coerce types ", " in BETWEEN") {
        let message = format!("cannot compare {}", sql_types(types));
        let hint = Some("convert one side with CAST(... AS ...)".to_owned());
        return Some(Wording { message, hint, at: Some("BETWEEN".to_owned()) });
    }
    let name = between(&text, "Function '", "' failed to match any signature")?;
    let wanted = text.split(" requires ").skip(1).filter_map(|wanted| wanted.split([',', '.']).next());
    let mut wanted: Vec<String> = wanted.map(sql_types).collect();
    wanted.dedup();
    let hint = (!wanted.is_empty()).then(|| format!("it takes {}", wanted.join(" or ")));
    let written = match name {
        "date_part" => "extract",
        "substr" => "substring",
        name => name,
    };
    Some(Wording {
        message: format!("`{written}` does not take arguments of these types"),
        hint,
        at: Some(written.to_owned()),
    })
}

/// A sentence about a running query, in users' words.
pub(crate) fn plain_sentence(text: &str) -> String {
    match misplaced(text) {
        Some((message, hint)) => format!("{message}; {hint}"),
        None => without_nodes(&plain_values(&with_patterns(text))),
    }
}

/// An error about a regular expression in one line. The parser of these draws the expression with marks below it.
fn with_patterns(text: &str) -> Cow<'_, str> {
    let Some((before, drawn)) = text.split_once("regex parse error:") else { return Cow::Borrowed(text) };
    let Some((drawn, reason)) = drawn.rsplit_once("error: ") else { return Cow::Borrowed(text) };
    let (reason, rest) = reason.split_once('\n').unwrap_or((reason, ""));
    let before = before.trim_end_matches(['~', '\n']);
    let before = before.strip_suffix("Syntax(").unwrap_or(before);
    let before = before.strip_suffix("Regular expression did not compile: ").unwrap_or(before);
    let before = before.strip_suffix("Compute error: ").unwrap_or(before);
    let rest = rest.trim_start_matches(['~', '\n', ')']);
    let pattern = drawn.trim_start_matches('\n').lines().next().unwrap_or_default().trim_start();
    Cow::Owned(format!("{before}'{pattern}' is not a regular expression: {reason}{rest}"))
}

fn unknown(text: &str) -> Wording {
    let (message, advice) = match text.split_once(". ") {
        Some((message, advice)) => (message, Some(lower_first(advice))),
        None => (text, None),
    };
    // A value or name in quotes is most likely what it is about.
    let at = between(text, "'", "'").or_else(|| between(text, "\"", "\"")).map(str::to_owned);
    let message = lower_first(&without_nodes(&sql_types(&plain_values(message))));
    Wording { message, hint: advice.map(|advice| without_nodes(&sql_types(&plain_values(&advice)))), at }
}

/// Without prefixes, and without locations in the planner's source.
fn clean(text: &str) -> String {
    const PREFIXES: [&str; 9] = [
        "Error during planning: ",
        "Schema error: ",
        "Execution error: ",
        "Arrow error: ",
        "External error: ",
        "Internal error: ",
        "Parser error: ",
        "Cast error: ",
        "This feature is not implemented: ",
    ];
    let mut text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest.trim();
    }
    with_patterns(text).trim_end_matches('.').to_owned()
}

/// `Int64(1)` as `1`, `Utf8("a")` as `"a"`, and times and intervals in SQL notation.
pub(crate) fn plain_values(text: &str) -> String {
    const TYPES: [&str; 17] = [
        "UInt64(",
        "UInt32(",
        "UInt16(",
        "UInt8(",
        "Int64(",
        "Int32(",
        "Int16(",
        "Int8(",
        "Float64(",
        "Float32(",
        "LargeUtf8(",
        "Utf8View(",
        "Utf8(",
        "Boolean(",
        "Date32(",
        "TimestampNanosecond(",
        "IntervalMonthDayNano(",
    ];
    let mut text = text.to_owned();
    for name in TYPES {
        while let Some(start) = text.find(name) {
            let first = start + name.len();
            // A text may have parentheses of its own.
            let end = if text[first..].starts_with('"') { "\")" } else { ")" };
            let Some(length) = text[first..].find(end) else { break };
            let value = &text[first..first + length + end.len() - 1];
            let value = interval(value).or_else(|| time(name, value)).unwrap_or_else(|| value.to_owned());
            text.replace_range(start..first + length + end.len(), &value);
        }
    }
    text
}

fn interval(value: &str) -> Option<String> {
    let parts = between(value, "IntervalMonthDayNano { ", " }")?;
    let part = |name: &str| -> Option<i64> {
        let value = parts.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix(": "))?;
        value.parse().ok()
    };
    let (months, days, rest_ns) = (part("months")?, part("days")?, part("nanoseconds")?);
    let mut written = Vec::new();
    if months != 0 {
        written.push(format!("{months} months"));
    }
    if days != 0 {
        written.push(format!("{days} days"));
    }
    if rest_ns != 0 || written.is_empty() {
        let sign = if rest_ns < 0 { "-" } else { "" };
        written.push(format!("{sign}{}", crate::text::duration::display_ns(rest_ns.checked_abs()?)));
    }
    Some(format!("INTERVAL '{}'", written.join(" ")))
}

fn time(name: &str, value: &str) -> Option<String> {
    let since_1970_ns = value.strip_suffix(", None").filter(|_| name == "TimestampNanosecond(")?;
    let time = timestamp_ns_to_datetime(since_1970_ns.parse().ok()?)?;
    Some(format!("'{time}'"))
}

/// Removes the debug form of the planner's nodes: `Identifier(Ident { ... })` becomes `...`.
fn without_nodes(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(open) = struct_at(&text) {
        // Its name, and those of the nodes around it.
        let is_name = |char: char| char.is_alphanumeric() || char == '(' || char == '[';
        let name = text[..open].trim_end();
        let start = name.rfind(|char| !is_name(char)).map_or(0, |at| at + 1);
        let mut depth = 0_i32;
        let mut end = text.len();
        for (at, char) in text[start..].char_indices() {
            match char {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => continue,
            }
            if depth <= 0 {
                end = start + at + char.len_utf8();
                break;
            }
        }
        text.replace_range(start..end, "...");
    }
    text
}

/// Where the fields of a printed node begin: `{` after a capitalised name.
fn struct_at(text: &str) -> Option<usize> {
    text.match_indices(" {").map(|(at, _)| at + 1).find(|open| {
        let name = text[..open - 1].rsplit(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
        name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
    })
}

/// With its first letter in lower case, unless it begins with a word in capitals.
pub(crate) fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !chars.as_str().starts_with(char::is_uppercase) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}
