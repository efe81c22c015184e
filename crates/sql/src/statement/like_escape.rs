//! `LIKE ... ESCAPE 'c'` as the same pattern with backslashes, the only escape that the evaluation knows.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    Value, ValueWithSpan,
};

/// Stands for the escape character itself while the others are replaced. No text of a client contains it.
const ESCAPED: char = '\u{1}';

/// Gives a `LIKE` its pattern with backslashes instead of another escape character.
pub(super) fn translate(pattern: &mut Expr, escape: &mut Option<ValueWithSpan>) {
    let Some(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = escape else { return };
    let mut letters = text.chars();
    let (Some(escaping), None) = (letters.next(), letters.next()) else { return };
    if escaping == '\\' {
        return;
    }
    let mut translated = std::mem::replace(pattern, Expr::value(Value::Null));
    for (from, to) in [
        ("\\".to_owned(), "\\\\".to_owned()),
        (format!("{escaping}{escaping}"), ESCAPED.to_string()),
        (escaping.to_string(), "\\".to_owned()),
        (ESCAPED.to_string(), escaping.to_string()),
    ] {
        translated = replace(translated, from, to);
    }
    (*pattern, *escape) = (translated, None);
}

/// `replace(text, from, to)`
fn replace(text: Expr, from: String, to: String) -> Expr {
    let literal = |text: String| Expr::value(Value::SingleQuotedString(text));
    let arguments = [text, literal(from), literal(to)];
    let args = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).to_vec();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("replace")]),
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
        for (text, pattern, expected) in [
            ("pg_toast", "pg/_%", true),
            ("pgxtoast", "pg/_%", false),
            ("a/b", "a//b", true),
            ("a\\b", "a//b", false),
            ("a\\b", "a\\b", true),
            ("50%/", "50/%//", true),
            ("50x/", "50/%//", false),
        ] {
            let query = format!("SELECT '{text}' LIKE '{pattern}' ESCAPE '/' AS is_like");
            let statement = divide(&query, "test").unwrap()[0].read().unwrap();
            let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement) else { panic!("{query}") };
            assert_eq!(rows.column(0).as_boolean().value(0), expected, "{query}");
        }
    }
}
