//! The statements of a text one by one, each read when it is wanted.

use std::ops::Range;
use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::tokens::{self, Tokens};
use super::{Statement, read};
use crate::TextError;
use crate::text::{Script, Span};

/// One statement of a text, not read yet.
///
/// ```
/// let pieces = tidemill_sql::divide("BEGIN; SELECT value FROM small WHERE value > $1", "example").unwrap();
/// assert_eq!(pieces[0].words(), ["BEGIN"]);
/// assert!(pieces[0].read().is_err());
/// assert_eq!(pieces[1].read().unwrap().parameters(), 1);
/// ```
pub struct Piece {
    script: Arc<Script>,
    tokens: Tokens,
}

/// Divides a text at each `;` into statements that are not read yet. `file` is its name in messages.
///
/// # Errors
/// If the text is too long, or has a piece that is not a word, number, text or sign.
pub fn divide(text: &str, file: &str) -> Result<Vec<Piece>, TextError> {
    let script = Script::new(text, file)?;
    let (pieces, unreadable) = tokens::divide(&script);
    let piece =
        |tokens: Result<Tokens, TextError>| Ok(Piece { script: Arc::clone(&script), tokens: tokens? });
    let pieces = pieces.into_iter().map(piece).collect::<Result<_, TextError>>()?;
    unreadable.map_or(Ok(pieces), Err)
}

impl Piece {
    /// Where it is, without its `;`.
    #[must_use]
    pub fn span(&self) -> Span {
        self.tokens.span
    }

    /// Its words, numbers, texts and signs as they are written, without comments. Options at its end are left out.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.tokens.main.iter().map(|token| token.token.to_string()).collect()
    }

    /// The words of the options at its end, `WITH ( ... )`, without `WITH`; none if it has no options.
    #[must_use]
    pub fn option_words(&self) -> Vec<String> {
        let options = self.tokens.options.iter().flat_map(|(tokens, _)| tokens);
        options.map(|token| token.token.to_string()).collect()
    }

    /// A part of it as a statement of its own: the words with these indexes. Places in its messages are those of the whole
    /// text.
    ///
    /// ```
    /// let piece = tidemill_sql::divide("COPY (SELECT 1 AS one) TO STDOUT", "example").unwrap().remove(0);
    /// assert!(piece.part(2..6).unwrap().read().is_ok());
    /// assert!(piece.part(4..4).is_none());
    /// ```
    #[must_use]
    pub fn part(&self, words: Range<usize>) -> Option<Piece> {
        let main = self.tokens.main.get(words)?.to_vec();
        let place = |token: &TokenWithSpan| self.script.span_of_tokens(token.span);
        let span = place(main.first()?)?.to(place(main.last()?)?);
        let end = Span { start: span.end, end: span.end };
        let tokens = Tokens { main, options: None, span, end };
        Some(Piece { script: Arc::clone(&self.script), tokens })
    }

    /// An error at this statement.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> TextError {
        TextError::new(&self.script, self.tokens.span, message)
    }

    /// Reads it. It may have parameters: `$1`, `$2`, ... stand for values that [`Statement::bind`] gives.
    ///
    /// # Errors
    /// If it is not a statement of the language.
    pub fn read(&self) -> Result<Statement, TextError> {
        read::of_client(&self.script, self.tokens.clone())
    }
}
