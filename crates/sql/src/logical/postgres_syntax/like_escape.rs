//! `LIKE ... ESCAPE 'c'` as the same pattern with backslashes, the only escape that the evaluation knows. A backslash there escapes `%`,
//! `_` and itself; before anything else it is a letter.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Value,
    ValueWithSpan,
};

use super::syntax::ident;

/// Stands for the escape character itself while the others are replaced. No text of a client contains it.
const ESCAPED: char = '\u{1}';

/// Gives a `LIKE` its pattern with backslashes instead of another escape character, or none.
///
/// # Errors
/// If a pattern ends with the escape character, which then escapes nothing.
pub(crate) fn translate(pattern: &mut Expr, escape: &mut Option<ValueWithSpan>) -> Result<()> {
    let Some(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = escape else { return Ok(()) };
    let mut letters = text.chars();
    let (escaping, None) = (letters.next(), letters.next()) else { return Ok(()) };
    if escaping == Some('\\') {
        return Ok(());
    }
    let mut translated = std::mem::replace(pattern, Expr::value(Value::Null));
    translated = match translated {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            literal(with_backslashes(&text, escaping)?)
        }
        mut translated => {
            for (from, to) in replacements(escaping) {
                translated = replace(translated, from, to);
            }
            translated
        }
    };
    (*pattern, *escape) = (translated, None);
    Ok(())
}

/// A pattern, letter by letter. What cannot be escaped is itself.
fn with_backslashes(pattern: &str, escaping: Option<char>) -> Result<String> {
    let mut translated = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    let plain = |translated: &mut String, letter: char| match letter {
        '\\' => translated.push_str("\\\\"),
        letter => translated.push(letter),
    };
    while let Some(letter) = letters.next() {
        if Some(letter) != escaping {
            plain(&mut translated, letter);
            continue;
        }
        match letters.next() {
            Some(escaped @ ('%' | '_')) => translated.extend(['\\', escaped]),
            Some(escaped) => plain(&mut translated, escaped),
            None => {
                return plan_err!(
                    "the LIKE pattern '{pattern}' ends with its escape character `{letter}`; write it twice for itself"
                );
            }
        }
    }
    Ok(translated)
}

/// The replacements in a pattern that is computed, in their order.
fn replacements(escaping: Option<char>) -> Vec<(String, String)> {
    let backslashes = ("\\".to_owned(), "\\\\".to_owned());
    let Some(escaping) = escaping else { return vec![backslashes] };
    let itself = match escaping {
        '%' | '_' => format!("\\{escaping}"),
        other => other.to_string(),
    };
    vec![
        backslashes,
        (format!("{escaping}{escaping}"), ESCAPED.to_string()),
        (escaping.to_string(), "\\".to_owned()),
        (ESCAPED.to_string(), itself),
    ]
}

fn literal(text: String) -> Expr {
    Expr::value(Value::SingleQuotedString(text))
}

/// `replace(text, from, to)`
fn replace(text: Expr, from: String, to: String) -> Expr {
    let arguments = [text, literal(from), literal(to)];
    let args = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).to_vec();
    Expr::Function(Function {
        name: ident("replace"),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::cast::AsArray;

    use crate::{Planner, Reply, divide};

    #[test]
    fn another_escape_character_means_what_a_backslash_does() {
        for (text, pattern, escape, expected) in [
            ("pg_toast", "pg/_%", "/", true),
            ("pgxtoast", "pg/_%", "/", false),
            ("a/b", "a//b", "/", true),
            ("a\\b", "a//b", "/", false),
            ("a\\b", "a\\b", "/", true),
            ("50%/", "50/%//", "/", true),
            ("50x/", "50/%//", "/", false),
            ("a%b", "a%%b", "%", true),
            ("axb", "a%%b", "%", false),
            ("a_b", "a__b", "_", true),
            ("axb", "a__b", "_", false),
            ("a\\b", "a\\b", "", true),
            ("a\\%", "a\\%", "", true),
        ] {
            // As a constant, and as a value that is computed.
            for pattern in [format!("'{pattern}'"), format!("concat('{pattern}', '')")] {
                let query = format!("SELECT '{text}' LIKE {pattern} ESCAPE '{escape}' AS is_like");
                let statement = divide(&query, "test").unwrap()[0].read().unwrap();
                let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement) else { panic!("{query}") };
                assert_eq!(rows.column(0).as_boolean().value(0), expected, "{query}");
            }
        }
        let query = "SELECT 'abc' LIKE 'a%' ESCAPE '%' AS is_like";
        let error = Planner::new().execute(&divide(query, "test").unwrap()[0].read().unwrap()).err().unwrap();
        assert!(error.to_string().contains("ends with its escape character"), "{error}");
        // Only a constant pattern can have an escape before a letter that needs none.
        let query = "SELECT 'ab' LIKE 'a/b' ESCAPE '/' AS is_like";
        let statement = divide(query, "test").unwrap()[0].read().unwrap();
        let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement) else { panic!("{query}") };
        assert!(rows.column(0).as_boolean().value(0));
    }
}
