//! `format('%I.%I', a, b)` of PostgreSQL, as clients write it to read the catalogue.

use datafusion::sql::sqlparser::ast::{self, DataType, Expr, Value};

use super::made::{call, cast};

/// The pieces of the text one after the other; `None` if its form is not a constant, or has more than `%s`, `%I`, `%L` and `%%`.
pub(super) fn concatenated(given: Vec<Expr>) -> Option<Expr> {
    let mut given = given.into_iter();
    let Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(form), .. }) = given.next()? else {
        return None;
    };
    let literal = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    // One piece at least, so that the text of nothing is empty.
    let (mut pieces, mut plain) = (vec![literal("")], String::new());
    let mut letters = form.chars();
    while let Some(letter) = letters.next() {
        let function = match (letter, letter == '%') {
            (_, true) => letters.next()?,
            (plain_letter, false) => {
                plain.push(plain_letter);
                continue;
            }
        };
        if function == '%' {
            plain.push('%');
            continue;
        }
        pieces.push(literal(&std::mem::take(&mut plain)));
        let value = given.next()?;
        let text = |value| cast(value, DataType::Varchar(None));
        pieces.push(match function {
            's' => value,
            'I' => call("quote_ident", vec![text(value)]),
            'L' => call("quote_nullable", vec![text(value)]),
            _ => return None,
        });
    }
    pieces.push(literal(&plain));
    Some(call("concat", pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(form: &str, columns: &[&str]) -> Option<String> {
        let form = Expr::value(Value::SingleQuotedString(form.to_owned()));
        let columns = columns.iter().map(|name| Expr::Identifier(ast::Ident::new(*name)));
        concatenated(std::iter::once(form).chain(columns).collect()).map(|expression| expression.to_string())
    }

    #[test]
    fn each_part_is_a_piece_of_the_text() {
        let expected = "concat('', '', quote_ident(CAST(a AS VARCHAR)), '.', b, ' 5%')";
        assert_eq!(text("%I.%s 5%%", &["a", "b"]).as_deref(), Some(expected));
        assert_eq!(text("", &[]).as_deref(), Some("concat('', '')"));
    }

    #[test]
    fn what_is_not_known_is_left_as_it_is() {
        for form in ["%1$s", "%10s", "%s %s", "%"] {
            assert_eq!(text(form, &["a"]), None, "{form}");
        }
        assert_eq!(concatenated(vec![Expr::Identifier(ast::Ident::new("form"))]), None);
    }
}
