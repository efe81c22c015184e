//! Reads one statement token by token.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::Language;
use super::keywords::is_reserved;
use super::parser_error::end_text;
use super::parser_steps::allow_steps;
use super::query_hint::query_hint;
pub(crate) use super::words::is_word;
use crate::statement::rewrites::{
    any_of_list, distinct_from, empty_group, from_first, row_values, standard_words,
};
use crate::statement::{Name, Script, Span, meant_type};
use crate::{TextError, closest};

/// The only supported dialect.
pub(crate) const DIALECT: Language = Language;

/// How deep parentheses, subqueries and expressions may be nested.
const MAX_DEPTH: usize = 50;

/// A position in the tokens of one statement, without spaces and comments.
pub(crate) struct Cursor<'a> {
    script: &'a Arc<Script>,
    parser: Parser<'a>,
    /// The end of the statement, where errors about missing parts are placed.
    end: Span,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first of `tokens`; `end` is the piece behind the last one.
    pub(crate) fn new(script: &'a Arc<Script>, tokens: Vec<TokenWithSpan>, end: Span) -> Self {
        allow_steps(tokens.len());
        let parser = Parser::new(&DIALECT).with_recursion_limit(MAX_DEPTH).with_tokens_with_locations(tokens);
        Cursor { script, parser, end }
    }

    pub(crate) fn script(&self) -> &'a Arc<Script> {
        self.script
    }

    /// The next token; `Token::EOF` after the last one.
    pub(crate) fn peek(&self) -> &TokenWithSpan {
        self.parser.peek_token_ref()
    }

    /// The piece of the next token.
    pub(crate) fn here(&self) -> Span {
        self.script.span_of_tokens(self.peek().span).unwrap_or(self.end)
    }

    /// The piece of the last token read.
    fn behind(&self) -> Span {
        self.script.span_of_tokens(self.parser.get_current_token().span).unwrap_or(self.end)
    }

    /// The piece from `first` to the last token read.
    pub(crate) fn since(&self, first: Span) -> Span {
        let last = self.behind();
        if last.end > first.start { first.to(last) } else { first }
    }

    /// Whether the next tokens are these words, unquoted.
    pub(crate) fn sees(&self, words: &[&str]) -> bool {
        words
            .iter()
            .enumerate()
            .all(|(ahead, word)| is_word(&self.parser.peek_nth_token_ref(ahead).token, word))
    }

    /// Whether a query begins here.
    pub(crate) fn sees_query(&self) -> bool {
        self.peek().token == Token::LParen
            || ["SELECT", "WITH", "VALUES", "FROM", "TABLE"].iter().any(|word| self.sees(&[word]))
    }

    /// Whether a query in parentheses begins here.
    pub(crate) fn sees_query_in_parentheses(&self) -> bool {
        self.peek().token == Token::LParen
            && ["SELECT", "WITH", "VALUES"].iter().any(|word| self.sees_second(word))
    }

    /// Whether the token after the next one is this word, unquoted.
    pub(crate) fn sees_second(&self, word: &str) -> bool {
        is_word(&self.parser.peek_nth_token_ref(1).token, word)
    }

    /// Whether the token after the next two is this word, unquoted.
    pub(crate) fn sees_third(&self, word: &str) -> bool {
        is_word(&self.parser.peek_nth_token_ref(2).token, word)
    }

    /// Whether the token after the next is a word that does not begin a query.
    pub(crate) fn second_is_plain_word(&self) -> bool {
        let second = &self.parser.peek_nth_token_ref(1).token;
        let query = ["SELECT", "WITH", "VALUES", "FROM", "TABLE"].iter().any(|word| is_word(second, word));
        matches!(second, Token::Word(_)) && !query
    }

    /// Whether these words come anywhere in what is left.
    pub(crate) fn finds(&self, words: &[&str]) -> bool {
        let left = self.tokens();
        let from = self.parser.get_current_index();
        let mut places = left.get(from..).unwrap_or_default().windows(words.len());
        places.any(|place| place.iter().zip(words).all(|(token, word)| is_word(&token.token, word)))
    }

    /// Reads these words if they come next.
    pub(crate) fn take(&mut self, words: &[&str]) -> bool {
        let seen = self.sees(words);
        if seen {
            words.iter().for_each(|_| self.parser.advance_token());
        }
        seen
    }

    /// Reads this word, which must be next.
    pub(crate) fn expect(&mut self, word: &str) -> Result<(), TextError> {
        if self.take(&[word]) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// Reads this symbol if it comes next.
    pub(crate) fn take_symbol(&mut self, symbol: &Token) -> bool {
        self.parser.consume_token(symbol)
    }

    /// Reads this symbol, which must be next.
    pub(crate) fn expect_symbol(&mut self, symbol: &Token) -> Result<(), TextError> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    /// Reads one token, whatever it is.
    pub(crate) fn advance(&mut self) -> Token {
        self.parser.next_token().token
    }

    /// Reads all tokens that are left.
    pub(crate) fn rest(&mut self) -> Vec<TokenWithSpan> {
        let mut rest = Vec::new();
        while self.peek().token != Token::EOF {
            rest.push(self.parser.next_token());
        }
        rest
    }

    /// Reads the name of a column or setting; `what` describes it in errors.
    pub(crate) fn name(&mut self, what: &str) -> Result<Name, TextError> {
        let span = self.here();
        let (value, quote) = match &self.peek().token {
            Token::Word(word) => (word.value.clone(), word.quote_style),
            Token::SingleQuotedString(text) => (text.clone(), Some('\'')),
            _ => return Err(self.unexpected(what)),
        };
        let value = if quote.is_none() { value.to_ascii_lowercase() } else { value };
        if value.is_empty() {
            return Err(TextError::new(self.script, span, format!("{what} must not be empty")));
        }
        self.parser.advance_token();
        Ok(Name { value, quote, span })
    }

    /// Reads the name of something new that queries read from or write to.
    pub(crate) fn relation_name(&mut self, what: &str) -> Result<Name, TextError> {
        let name = self.name(what)?;
        let period = self.here();
        if self.take_symbol(&Token::Period) {
            let error = TextError::new(self.script, name.span.to(period), "a name has only one part");
            return Err(error.with_hint(format!("remove `{}.`", name.value)));
        }
        if name.quote.is_none() && is_reserved(&name.value) {
            let message = format!("`{}` is a reserved word and cannot be a name", name.value);
            let error = TextError::new(self.script, name.span, message);
            return Err(error.with_hint(format!("choose another name, or write \"{}\"", name.value)));
        }
        Ok(name)
    }

    /// Reads `(a, b)`.
    pub(crate) fn names(&mut self, what: &str) -> Result<Vec<Name>, TextError> {
        self.expect_symbol(&Token::LParen)?;
        let mut names = vec![self.name(what)?];
        while self.take_symbol(&Token::Comma) {
            names.push(self.name(what)?);
        }
        if self.take_symbol(&Token::RParen) { Ok(names) } else { Err(self.unexpected("`,` or `)`")) }
    }

    /// Reads an expression.
    pub(crate) fn expression(&mut self) -> Result<ast::Expr, TextError> {
        let mut expression = self.parse(Parser::parse_expr)?;
        distinct_from::regroup(&mut expression);
        any_of_list::translate(&mut expression);
        row_values::translate(&mut expression);
        Ok(expression)
    }

    /// Reads the name of a type.
    pub(crate) fn data_type(&mut self) -> Result<ast::DataType, TextError> {
        let mut data_type = self.parse(Parser::parse_data_type)?;
        meant_type(&mut data_type);
        Ok(data_type)
    }

    /// Reads a query.
    pub(crate) fn query(&mut self) -> Result<Box<ast::Query>, TextError> {
        self.check_clauses()?;
        let mut query = self.parse(Parser::parse_query)?;
        complete(&mut query);
        Ok(query)
    }

    /// Reads a statement that changes the rows of a table, and the query whose `WITH` stands before it. Its queries are to be
    /// [completed](complete).
    pub(crate) fn change(&mut self) -> Result<(Box<ast::Statement>, Option<Box<ast::Query>>), TextError> {
        self.check_clauses()?;
        let mut with = None;
        let change = self.parse(|parser| {
            if is_word(&parser.peek_token_ref().token, "WITH") {
                let mut query = parser.parse_query()?;
                let nothing = ast::SetExpr::Values(ast::Values {
                    explicit_row: false,
                    value_keyword: false,
                    rows: Vec::new(),
                });
                let change = match std::mem::replace(&mut *query.body, nothing) {
                    ast::SetExpr::Insert(change)
                    | ast::SetExpr::Update(change)
                    | ast::SetExpr::Delete(change)
                    | ast::SetExpr::Merge(change) => change,
                    _ => return parser.expected("a change of a table", parser.peek_token()),
                };
                with = Some(query);
                return Ok(change);
            }
            let first = parser.next_token();
            match &first.token {
                Token::Word(word) => match word.keyword {
                    Keyword::INSERT => parser.parse_insert(first),
                    Keyword::UPDATE => parser.parse_update(first),
                    Keyword::DELETE => parser.parse_delete(first),
                    Keyword::MERGE => parser.parse_merge(first).map(ast::Statement::Merge),
                    _ => parser.parse_truncate().map(ast::Statement::from),
                },
                _ => parser.expected("a change of a table", first),
            }
        })?;
        Ok((Box::new(change), with))
    }

    fn parse<T>(
        &mut self,
        read: impl FnOnce(&mut Parser<'a>) -> Result<T, ParserError>,
    ) -> Result<T, TextError> {
        read(&mut self.parser)
            .map_err(|error| TextError::from_parser(&error, self.script, &self.tokens(), self.end))
    }

    /// Refuses `SELECT a, FROM b` and the like: the parser would take `FROM` for a column.
    fn check_clauses(&self) -> Result<(), TextError> {
        let tokens = self.tokens();
        let from = self.parser.get_current_index();
        // Behind a full stop, a word is the name of a column: `SELECT t.by FROM t`.
        let is_name = |at: usize| at > 0 && tokens[at - 1].token == Token::Period;
        let mut places = from + 1..tokens.len();
        let Some(at) = places.find(|at| breaks(tokens[*at]) && opens(tokens[at - 1]) && !is_name(at - 1))
        else {
            return Ok(());
        };
        let (before, after) = (tokens[at - 1], tokens[at]);
        let place = self.script.span_of_tokens(after.span).unwrap_or(self.end);
        let error = TextError::new(self.script, place, format!("expected an expression, found `{after}`"));
        let comma = before.token == Token::Comma;
        Err(error.with_optional_hint(comma.then(|| "remove the comma before it".to_owned())))
    }

    fn tokens(&self) -> Vec<&TokenWithSpan> {
        (0..).map(|at| self.parser.token_at(at)).take_while(|token| token.token != Token::EOF).collect()
    }

    /// Whether one word is left, and no more.
    pub(crate) fn is_single_word(&self) -> bool {
        matches!(self.peek().token, Token::Word(_)) && self.parser.peek_nth_token(1).token == Token::EOF
    }

    /// Checks that the statement ends here; `read` describes what came before, for the error.
    pub(crate) fn finish(&self, read: &str) -> Result<(), TextError> {
        if self.peek().token == Token::EOF {
            return Ok(());
        }
        let error = self.unexpected(&format!("the end of the {read}"));
        if self.sees(&["WITH"]) {
            return Err(error.with_hint("options come at the end: WITH (name = value, ...)"));
        }
        let near = (read == "query").then(|| query_hint(&self.tokens(), self.parser.get_current_index() + 1));
        Err(error.with_optional_hint(near.flatten()))
    }

    /// The error if something other than `expected` comes next.
    pub(crate) fn unexpected(&self, expected: &str) -> TextError {
        let message = match &self.peek().token {
            Token::EOF => format!("expected {expected}, found {}", end_text(self.script, self.end)),
            found => format!("expected {expected}, found `{found}`"),
        };
        TextError::new(self.script, self.here(), message)
    }

    /// The error if none of these words comes next; suggests the one that was probably meant.
    pub(crate) fn expected_one_of(&self, words: &[&str]) -> TextError {
        let meant = match &self.peek().token {
            Token::Word(word) => closest(&word.value, words.iter().copied()),
            _ => None,
        };
        let hint = meant.map(|word| format!("did you mean {word}?"));
        self.unexpected(&alternatives(words)).with_optional_hint(hint)
    }
}

/// Whether an expression or a table must follow.
fn opens(token: &TokenWithSpan) -> bool {
    const WORDS: [&str; 9] = ["SELECT", "FROM", "WHERE", "AND", "OR", "BY", "HAVING", "WHEN", "THEN"];
    match &token.token {
        Token::Comma | Token::Plus | Token::Minus | Token::Div | Token::Eq | Token::Neq => true,
        Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => true,
        word => WORDS.iter().any(|known| is_word(word, known)),
    }
}

/// Whether no expression and no table can begin here.
fn breaks(token: &TokenWithSpan) -> bool {
    const WORDS: [&str; 8] = ["FROM", "WHERE", "GROUP", "HAVING", "UNION", "AND", "OR", "THEN"];
    WORDS.iter().any(|known| is_word(&token.token, known))
}

/// `A, B or C`.
/// Puts what a query says in words of its own into those of the parser's planner.
pub(crate) fn complete(query: &mut Box<ast::Query>) {
    from_first::complete(query);
    distinct_from::regroup(query);
    any_of_list::translate(query);
    row_values::translate(query);
    empty_group::translate(query);
    standard_words::translate(query);
}

pub(super) fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
