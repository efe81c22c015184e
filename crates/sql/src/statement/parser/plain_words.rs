//! Words that begin a clause in some dialect, such as `TOP 5` or `CLUSTER BY a`, where they are the name of a column.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::is_word;

/// The words. In PostgreSQL they can be the names of columns.
const WORDS: [&str; 13] = [
    "BY",
    "CLUSTER",
    "DISTRIBUTE",
    "EXCLUDE",
    "EXISTS",
    "EXPLAIN",
    "INTERVAL",
    "SORT",
    "STRUCT",
    "TOP",
    "TRIM",
    "VALUES",
    "VIEW",
];

/// What stands before an expression.
const BEFORE: [&str; 17] = [
    "ALL", "AND", "BETWEEN", "BY", "CASE", "DISTINCT", "ELSE", "HAVING", "IN", "IS", "LIKE", "NOT", "ON",
    "OR", "SELECT", "THEN", "WHEN",
];

/// What stands behind an expression.
const BEHIND: [&str; 20] = [
    "AND", "AS", "ASC", "BETWEEN", "DESC", "ELSE", "END", "FROM", "GROUP", "HAVING", "IN", "IS", "LIKE",
    "LIMIT", "NOT", "OR", "ORDER", "THEN", "UNION", "WHERE",
];

/// Puts quotes around the words that stand where only an expression can.
pub(crate) fn quote(tokens: &mut [TokenWithSpan]) {
    for at in 1..tokens.len() {
        let is_name = is_one_of(&tokens[at].token, &WORDS)
            && may_precede(&tokens[at - 1].token)
            && tokens.get(at + 1).is_none_or(|next| may_follow(&next.token))
            && !tokens.get(at + 1).is_some_and(|next| goes_on(&tokens[at].token, &next.token));
        if let Token::Word(word) = &mut tokens[at].token
            && is_name
        {
            (word.quote_style, word.keyword) = (Some('"'), Keyword::NoKeyword);
            word.value.make_ascii_lowercase();
        }
    }
}

fn is_one_of(token: &Token, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}

fn is_operator(token: &Token) -> bool {
    use Token::{Div, Eq, Gt, GtEq, Lt, LtEq, Minus, Mod, Mul, Neq, Plus, StringConcat};
    matches!(token, Plus | Minus | Mul | Div | Mod | Eq | Neq | Lt | LtEq | Gt | GtEq | StringConcat)
}

fn may_precede(token: &Token) -> bool {
    // After `*` comes EXCLUDE.
    let is_operator = is_operator(token) && *token != Token::Mul;
    is_operator
        || matches!(token, Token::Comma | Token::LParen)
        || is_one_of(token, &BEFORE)
        || is_word(token, "WHERE")
}

fn may_follow(token: &Token) -> bool {
    is_operator(token)
        || matches!(token, Token::Comma | Token::RParen | Token::DoubleColon)
        || is_one_of(token, &BEHIND)
}

/// Whether a word with this behind it is not a name: `STRUCT<a INT>` and `INTERVAL -1 DAY`.
fn goes_on(word: &Token, next: &Token) -> bool {
    match next {
        Token::Lt => is_word(word, "STRUCT"),
        Token::Plus | Token::Minus => is_word(word, "INTERVAL"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Planner, Reply, parse};

    fn rows(query: &str) -> usize {
        let statement = &parse(query, "words").unwrap_or_else(|error| panic!("{query}: {error}"))[0];
        match Planner::new().execute(statement) {
            Ok(Reply::Rows(rows)) => rows.num_rows(),
            Ok(_) => panic!("{query}: it is answered at once"),
            Err(error) => panic!("{query}: {error}"),
        }
    }

    #[test]
    fn columns_have_the_names_of_clauses_of_other_dialects() {
        for word in super::WORDS.map(str::to_lowercase) {
            for query in [
                format!("SELECT {word} FROM (SELECT 7 AS {word}) AS t"),
                format!(
                    "SELECT DISTINCT {word}, {word} + 1 AS more FROM (SELECT 7 AS {word}) AS t WHERE {word} > 0"
                ),
                format!(
                    "SELECT 1 + {word} AS more, t.{word} FROM (SELECT 7 AS {word}) AS t ORDER BY {word} DESC"
                ),
                format!("SELECT max({word}) AS most FROM (SELECT 7 AS {word}) AS t GROUP BY {word}"),
            ] {
                assert_eq!(rows(&query), 1, "{query}");
            }
        }
        assert_eq!(rows("SELECT * EXCLUDE (top) FROM (SELECT 1 AS top, 2 AS b) AS t"), 1);
    }
}
