//! The text of a function, which stands in quotes: its tokens have places in the script around it.

use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::{
    Location, Span as TokenSpan, Token, TokenWithSpan, Tokenizer, TokenizerError,
};

use crate::TextError;
use crate::statement::parser::cursor::DIALECT;
use crate::text::{Script, Span};

/// The tokens of a text in `'...'` or `$$...$$`; none if it is not such a text.
pub(crate) fn tokens(
    script: &Arc<Script>,
    quoted: &TokenWithSpan,
) -> Result<Option<Vec<TokenWithSpan>>, TextError> {
    let raw = script.span_of_tokens(quoted.span).map_or("", |span| script.slice(span));
    let start = quoted.span.start;
    let Some(text) = PlacedText::of(&quoted.token, raw, start) else { return Ok(None) };
    let mut tokens = Vec::new();
    Tokenizer::new(&DIALECT, &text.text)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| text.error(&error, script))?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    if tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    for token in &mut tokens {
        token.span = TokenSpan::new(text.place(token.span.start), text.place(token.span.end));
    }
    Ok(Some(tokens))
}

/// A text without its quotes, with the place of each of its characters in the script.
struct PlacedText {
    text: String,
    /// One more than there are characters: the last is the end.
    places: Vec<Location>,
    /// The number of the first character of each line.
    lines: Vec<usize>,
}

impl PlacedText {
    fn of(token: &Token, raw: &str, start: Location) -> Option<PlacedText> {
        let (inner, skipped, doubled) = match token {
            Token::SingleQuotedString(_) => (raw.strip_prefix('\'')?.strip_suffix('\'')?, 1, true),
            Token::DollarQuotedString(_) => {
                let tag = &raw[..raw.get(1..)?.find('$')? + 2];
                (raw.strip_prefix(tag)?.strip_suffix(tag)?, tag.chars().count(), false)
            }
            _ => return None,
        };
        let mut placed = PlacedText { text: String::new(), places: Vec::new(), lines: vec![0] };
        let mut place = Location { line: start.line, column: start.column + skipped as u64 };
        let mut characters = inner.chars().peekable();
        while let Some(character) = characters.next() {
            placed.places.push(place);
            placed.text.push(character);
            place.column += 1;
            if doubled && character == '\'' && characters.next_if_eq(&'\'').is_some() {
                place.column += 1;
            }
            if character == '\n' {
                place = Location { line: place.line + 1, column: 1 };
                placed.lines.push(placed.places.len());
            }
        }
        placed.places.push(place);
        Some(placed)
    }

    /// Where a place of the text is in the script.
    fn place(&self, location: Location) -> Location {
        let line = usize::try_from(location.line.max(1) - 1).unwrap_or(usize::MAX);
        let column = usize::try_from(location.column.max(1) - 1).unwrap_or(usize::MAX);
        let first = self.lines.get(line).or(self.lines.last()).copied().unwrap_or_default();
        self.places[first.saturating_add(column).min(self.places.len() - 1)]
    }

    fn error(&self, error: &TokenizerError, script: &Arc<Script>) -> TextError {
        let place = self.place(error.location);
        let span = script.span_of_tokens(TokenSpan::new(place, place)).unwrap_or(Span {
            start: script.place(u32::try_from(place.line).unwrap_or(1), 1),
            end: script.end(),
        });
        TextError::new(script, span, error.message.clone())
    }
}
