//! The statements of a text one by one, each read when it is wanted.

use std::ops::Range;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Expr, Ident, ObjectName, SelectItem, SetExpr, TableFactor};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::client::query;
use super::parser::tokens::{self, Tokens};
use super::{Statement, StatementKind, parse, read};
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

    /// It without one of its words; places in its messages stay those of the whole text.
    ///
    /// ```
    /// let piece = tidemill_sql::divide("SET LOCAL workers = 2", "example").unwrap().remove(0);
    /// assert!(piece.without(1).read().is_ok());
    /// ```
    #[must_use]
    pub fn without(&self, word: usize) -> Piece {
        let mut tokens = self.tokens.clone();
        if word < tokens.main.len() {
            tokens.main.remove(word);
        }
        Piece { script: Arc::clone(&self.script), tokens }
    }

    /// `SELECT * FROM relation`, or with these columns in place of the star. Both are the indexes of words of this statement, so
    /// that messages have their places in its text.
    ///
    /// ```
    /// let piece = tidemill_sql::divide("COPY v (a, \"B c\") TO STDOUT", "example").unwrap().remove(0);
    /// assert_eq!(piece.select(1, Some(&[3, 5])).unwrap().text, "SELECT a, \"B c\" FROM v");
    /// assert_eq!(piece.select(1, None).unwrap().text, "SELECT * FROM v");
    /// assert!(piece.select(2, None).is_err());
    /// ```
    ///
    /// # Errors
    /// If one of the words is not a name.
    pub fn select(&self, relation: usize, columns: Option<&[usize]>) -> Result<Statement, TextError> {
        let relation = self.ident(relation)?;
        let columns = columns.map(|columns| columns.iter().map(|column| self.ident(*column)));
        let columns = columns.map(Iterator::collect::<Result<Vec<_>, _>>).transpose()?;
        let statement = parse("SELECT * FROM placeholder", "template")?.into_iter().next();
        let Some(Statement { kind: StatementKind::Query(mut query, options), .. }) = statement else {
            return Err(self.error("the query implied by the statement cannot be read"));
        };
        if let SetExpr::Select(select) = &mut *query.body {
            if let Some(columns) = columns {
                let item = |column| SelectItem::UnnamedExpr(Expr::Identifier(column));
                select.projection = columns.into_iter().map(item).collect();
            }
            if let Some(TableFactor::Table { name, .. }) =
                select.from.first_mut().map(|from| &mut from.relation)
            {
                *name = ObjectName::from(vec![relation]);
            }
        }
        let (text, span, script) = (query.to_string(), self.tokens.span, Arc::clone(&self.script));
        let mut kind = StatementKind::Query(query, options);
        query::translate(&mut kind);
        Ok(Statement { kind, span, text, script })
    }

    /// The name that a word is.
    fn ident(&self, word: usize) -> Result<Ident, TextError> {
        let token = self.tokens.main.get(word);
        let ident = token.and_then(|token| match &token.token {
            Token::Word(word) => Some((word.value.clone(), word.quote_style, token.span)),
            // A file, for who may read it.
            Token::SingleQuotedString(path) => Some((path.clone(), Some('\''), token.span)),
            _ => None,
        });
        let (value, quote_style, span) = ident.ok_or_else(|| {
            let place = token.and_then(|token| self.script.span_of_tokens(token.span));
            TextError::new(&self.script, place.unwrap_or(self.tokens.span), "this is not a name")
        })?;
        Ok(Ident { value, quote_style, span })
    }

    /// An error at this statement.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> TextError {
        TextError::new(&self.script, self.tokens.span, message)
    }

    /// Reads it as a change of a table.
    pub(super) fn change(&self) -> Result<(Box<ast::Statement>, Option<Box<ast::Query>>), TextError> {
        read::change(&self.script, self.tokens.clone())
    }

    /// Where it is, and in what.
    pub(super) fn place(&self) -> (Arc<Script>, Span) {
        (Arc::clone(&self.script), self.tokens.span)
    }

    /// Reads it. It may have parameters: `$1`, `$2`, ... stand for values that [`Statement::bind`] gives.
    ///
    /// # Errors
    /// If it is not a statement of the language.
    pub fn read(&self) -> Result<Statement, TextError> {
        read::of_client(&self.script, self.tokens.clone())
    }
}
