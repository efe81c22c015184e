//! Translates the words of other systems in a statement that is refused.

use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::cursor::DIALECT;
use super::foreign_words::{FOREIGN_WORDS, ForeignWords};
use crate::TextError;
use crate::text::Span;

/// How hints begin that only list what there is.
const WEAK: [&str; 3] = ["the columns are", "there are", "SHOW FUNCTIONS"];

/// The error of the statement at `span`; the hint says it in our words if the statement has those of another system.
pub(crate) fn translated(error: TextError, span: Span) -> TextError {
    let tokens = tokens(error.script.slice(span));
    let wrong = self::tokens(error.script.slice(error.span));
    // A hint that only lists what there is says less than one about these words.
    let is_weak = error.hint.as_ref().is_none_or(|hint| WEAK.iter().any(|start| hint.starts_with(start)));
    let fitting: Vec<_> = FOREIGN_WORDS
        .iter()
        .filter_map(|words| Some((words, (0..tokens.len()).find_map(|at| captured(words, &tokens[at..]))?)))
        .collect();
    let is_there = |words: &ForeignWords| {
        wrong.iter().any(|token| words.pattern.split(' ').any(|word| is_same(token, word)))
    };
    // A single word can be a name elsewhere.
    let is_sure = |words: &ForeignWords| is_weak && words.pattern.contains(' ');
    let meant = fitting.iter().find(|(words, _)| is_there(words));
    let meant = meant.or_else(|| fitting.iter().find(|(words, _)| is_sure(words)));
    let found = meant.map(|(words, captured)| filled(words.hint, captured, from(&tokens)));
    error.with_optional_hint(found)
}

/// The tokens of a text up to what cannot be read, without blanks.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let _ = Tokenizer::new(&DIALECT, text).tokenize_with_location_into_buf(&mut tokens);
    tokens
        .into_iter()
        .map(|token| token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect()
}

fn is_same(token: &Token, word: &str) -> bool {
    match token {
        Token::Word(found) if found.quote_style.is_none() => found.value.eq_ignore_ascii_case(word),
        // Flink writes the names of options in quotes.
        Token::SingleQuotedString(text) => word.contains('.') && text == word,
        token => token.to_string() == word,
    }
}

/// What the pattern captures at the start of the tokens; `None` if it is absent.
fn captured(words: &ForeignWords, tokens: &[Token]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = tokens;
    for word in words.pattern.split(' ') {
        match word {
            "(*)" => {
                let arguments = arguments(rest)?;
                found.extend(arguments);
                return Some(found);
            }
            "<number>" => {
                let (number, behind) = rest.split_first()?;
                let Token::Number(digits, _) = number else { return None };
                found.push(digits.clone());
                rest = behind;
            }
            "<text>" => {
                let (Token::SingleQuotedString(text), behind) = rest.split_first()? else { return None };
                found.push(text.clone());
                rest = behind;
            }
            "<name>" => {
                let (Token::Word(name), behind) = rest.split_first()? else { return None };
                found.push(name.to_string());
                rest = behind;
            }
            "_" => match rest.split_first()? {
                (Token::SingleQuotedString(text), behind) => {
                    found.push(text.clone());
                    rest = behind;
                }
                (token, behind) => {
                    found.push(token.to_string());
                    rest = behind;
                }
            },
            word => rest = rest.split_first().filter(|(token, _)| is_same(token, word))?.1,
        }
    }
    Some(found)
}

/// The arguments of a call, the first token being its parenthesis.
fn arguments(tokens: &[Token]) -> Option<Vec<String>> {
    let inside = tokens.split_first().filter(|(token, _)| **token == Token::LParen)?.1;
    let mut depth = 0_usize;
    let end = inside.iter().position(|token| {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return true,
            Token::RParen => depth -= 1,
            _ => {}
        }
        false
    });
    let inside = &inside[..end.unwrap_or(inside.len())];
    let mut depth = 0_usize;
    let parts = inside.split(|token| {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *token == Token::Comma
    });
    Some(parts.filter(|part| !part.is_empty()).map(argument).collect())
}

/// An argument in our words: `DATA => TABLE clicks` is `clicks`, and `DESCRIPTOR(at)` is `at`.
fn argument(tokens: &[Token]) -> String {
    let tokens = match tokens {
        [_, Token::RArrow, value @ ..] => value,
        tokens => tokens,
    };
    let tokens = match tokens {
        [first, relation @ ..] if is_same(first, "TABLE") && !relation.is_empty() => relation,
        [first, Token::LParen, columns @ .., Token::RParen] if is_same(first, "DESCRIPTOR") => columns,
        tokens => tokens,
    };
    let mut text = String::new();
    let mut glued = true;
    for token in tokens {
        let is_glued = matches!(token, Token::Comma | Token::RParen | Token::LParen | Token::Period);
        if !glued && !is_glued {
            text.push(' ');
        }
        text.push_str(&token.to_string());
        glued = matches!(token, Token::LParen | Token::Period);
    }
    text
}

/// The first relation of the query.
fn from(tokens: &[Token]) -> Option<String> {
    let at = tokens.iter().position(|token| is_same(token, "FROM"))?;
    tokens.get(at + 1).filter(|token| matches!(token, Token::Word(_))).map(Token::to_string)
}

/// The hint with what was captured; what was not is left open.
fn filled(hint: &str, captured: &[String], from: Option<String>) -> String {
    let mut text = hint.replace("{from}", from.as_deref().unwrap_or("name"));
    for number in 1..=4 {
        let value = captured.get(number - 1).map_or("...", String::as_str);
        text = text.replace(&format!("{{{number}}}"), value);
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::statement::parse_all;

    fn hint(text: &str) -> Option<String> {
        let (_, errors) = parse_all(text, "query");
        errors.into_iter().next().expect("it is refused").hint
    }

    #[test]
    fn calls_are_written_with_their_own_arguments() {
        assert_eq!(
            hint("SELECT * FROM TABLE(HOP(DATA => TABLE c.d, TIMECOL => DESCRIPTOR(at), SLIDE => INTERVAL '5' MINUTES, \
                  SIZE => INTERVAL '10' MINUTES))")
            .as_deref(),
            Some("write FROM hop(TABLE(c.d), at, INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)")
        );
        assert_eq!(
            hint("SELECT a FROM s JOIN t WITHIN 1 HOUR ON s.a = t.a").as_deref(),
            Some("bound the event times in ON: ... AND b.at BETWEEN a.at - INTERVAL '1 HOUR' AND a.at")
        );
    }

    #[test]
    fn unfinished_calls_do_no_harm() {
        for text in ["SELECT * FROM TABLE(TUMBLE(TABLE", "CREATE STREAM", "SELECT a EMIT CHANGES (", "PRINT"]
        {
            assert!(parse_all(text, "query").1.len() == 1, "{text}");
        }
    }

    #[test]
    fn names_and_texts_are_left_alone() {
        assert_eq!(hint("SELECT 'EMIT CHANGES' FROM a b c"), None);
        assert_eq!(hint("SELECT rowtime, 1 FROM a b c"), None);
        assert_eq!(hint("SELECT \"emit\" FROM a b \"changes\""), None);
    }
}
