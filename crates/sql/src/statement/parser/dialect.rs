//! The dialect in which queries are read: the parser's general one, with the operators of PostgreSQL, their precedence, and the words that
//! PostgreSQL does not take for the name of a column without AS.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::parser_steps::take_step;
use super::words::is_word;

/// What is not said here is as in the general dialect.
const GENERAL: GenericDialect = GenericDialect {};

/// How closely operators bind, as in PostgreSQL.
const SIGN: u8 = 125;
const CARET: u8 = 100;
const OTHER: u8 = 70;
const BETWEEN: u8 = 60;
const IS: u8 = 40;

/// Words that PostgreSQL takes for the name of a column only behind AS, and those after which a query would continue in ORDER BY.
pub(super) const NO_ALIAS: [&str; 26] = [
    "array",
    "asc",
    "char",
    "character",
    "create",
    "day",
    "desc",
    "filter",
    "grant",
    "hour",
    "isnull",
    "minute",
    "month",
    "national",
    "notnull",
    "over",
    "overlaps",
    "precision",
    "returning",
    "second",
    "to",
    "varying",
    "within",
    "without",
    "year",
    "symmetric",
];

/// See the module.
#[derive(Debug)]
pub(crate) struct Language;

macro_rules! as_in_general {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            GENERAL.$name()
        })*
    };
}

impl Dialect for Language {
    /// Where the parser asks for a dialect by its type, this is the general one.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        GENERAL.is_delimited_identifier_start(letter)
    }

    /// `INSERT INTO table AS alias`.
    fn supports_insert_table_alias(&self) -> bool {
        true
    }

    /// `#` and `@` begin operators.
    fn is_identifier_start(&self, letter: char) -> bool {
        !matches!(letter, '#' | '@') && GENERAL.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        !matches!(letter, '#' | '@') && GENERAL.is_identifier_part(letter)
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Period => 200,
            Precedence::DoubleColon => 140,
            Precedence::AtTz => 110,
            Precedence::Caret => CARET,
            Precedence::MulDivModOp => 90,
            Precedence::PlusMinus => 80,
            Precedence::Xor => 75,
            Precedence::Ampersand | Precedence::Pipe | Precedence::Colon | Precedence::PgOther => OTHER,
            Precedence::Between | Precedence::Like => BETWEEN,
            Precedence::Eq => 50,
            Precedence::Is => IS,
            Precedence::UnaryNot => 30,
            Precedence::And => 20,
            Precedence::Or => 10,
        }
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::StringConcat
            | Token::Sharp
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => Some(Ok(OTHER)),
            token if is_word(token, "ISNULL") => Some(Ok(IS)),
            // Behind an operand, a question mark is an operator of JSON.
            Token::Placeholder(mark) if mark == "?" => Some(Ok(OTHER)),
            _ => None,
        }
    }

    /// A sign binds more closely than a power: `-2 ^ 2` is 4.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Err(error) = take_step() {
            return Some(Err(error));
        }
        let (op, binding) = match &parser.peek_token_ref().token {
            Token::Minus => (UnaryOperator::Minus, SIGN),
            Token::Plus => (UnaryOperator::Plus, SIGN),
            Token::Tilde => (UnaryOperator::BitwiseNot, OTHER),
            _ => return None,
        };
        parser.advance_token();
        let operand = parser.parse_subexpr(binding);
        Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        binding: u8,
    ) -> Option<Result<Expr, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Caret => Some(binary(parser, left, BinaryOperator::PGExp, binding)),
            Token::Sharp => Some(binary(parser, left, BinaryOperator::PGBitwiseXor, binding)),
            Token::Placeholder(mark) if mark == "?" => {
                let op = match parser.peek_nth_token_ref(1).token {
                    Token::Pipe => BinaryOperator::QuestionPipe,
                    Token::Ampersand => BinaryOperator::QuestionAnd,
                    _ => BinaryOperator::Question,
                };
                if op != BinaryOperator::Question {
                    parser.advance_token();
                }
                Some(binary(parser, left, op, binding))
            }
            token if is_word(token, "ISNULL") => {
                parser.advance_token();
                Some(Ok(Expr::IsNull(Box::new(left.clone()))))
            }
            token if is_word(token, "BETWEEN") => between(parser, left, false),
            token if is_word(token, "NOT") && is_word(&parser.peek_nth_token_ref(1).token, "BETWEEN") => {
                between(parser, left, true)
            }
            _ => None,
        }
    }

    fn is_select_item_alias(&self, explicit: bool, word: &Keyword, parser: &mut Parser) -> bool {
        // The word itself has been read.
        let written = parser.get_current_token();
        let is_plain = !NO_ALIAS.iter().any(|reserved| is_word(&written.token, reserved));
        explicit || (is_plain && !RESERVED_FOR_COLUMN_ALIAS.contains(word))
    }

    as_in_general!(
        allow_extract_custom,
        allow_extract_single_quotes,
        support_map_literal_syntax,
        supports_array_join_syntax,
        supports_array_typedef_with_brackets,
        supports_asc_desc_in_column_definition,
        supports_bitwise_shift_operators,
        supports_comma_separated_set_assignments,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_connect_by,
        supports_constraint_keyword_without_name,
        supports_create_index_with_clause,
        supports_create_view_comment_syntax,
        supports_cte_without_as,
        supports_data_type_signed_suffix,
        supports_detach,
        supports_dictionary_syntax,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_extract_comma_syntax,
        supports_filter_during_aggregation,
        supports_from_first_select,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_install,
        supports_interpolate,
        supports_interval_options,
        supports_key_column_option,
        supports_left_associative_joins_without_parens,
        supports_limit_by,
        supports_limit_comma,
        supports_load_extension,
        supports_match_against,
        supports_match_recognize,
        supports_multiline_comment_hints,
        supports_named_fn_args_with_assignment_operator,
        supports_nested_comments,
        supports_optimize_table,
        supports_parens_around_table_factor,
        supports_parenthesized_set_variables,
        supports_partition_by_after_order_by,
        supports_pipe_operator,
        supports_prewhere,
        supports_projection_trailing_commas,
        supports_quote_delimited_string,
        supports_select_format,
        supports_select_item_multi_column_alias,
        supports_select_wildcard_except,
        supports_select_wildcard_exclude,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_select_wildcard_replace,
        supports_set_names,
        supports_settings,
        supports_start_transaction_modifier,
        supports_string_escape_constant,
        supports_struct_literal,
        supports_try_convert,
        supports_unicode_string_literal,
        supports_update_order_by,
        supports_user_host_grantee,
        supports_values_as_table_factor,
        supports_window_clause_named_window_reference,
        supports_window_function_null_treatment_arg,
        supports_with_fill,
        supports_xml_expressions,
    );
}

/// Reads the operator and its right operand.
fn binary(parser: &mut Parser, left: &Expr, op: BinaryOperator, binding: u8) -> Result<Expr, ParserError> {
    parser.advance_token();
    let right = Box::new(parser.parse_subexpr(binding)?);
    Ok(Expr::BinaryOp { left: Box::new(left.clone()), op, right })
}

/// Reads `[NOT] BETWEEN SYMMETRIC low AND high`, whose bounds may be in any order; `None` if SYMMETRIC is not there.
fn between(parser: &mut Parser, value: &Expr, negated: bool) -> Option<Result<Expr, ParserError>> {
    let behind = 1 + usize::from(negated);
    if !is_word(&parser.peek_nth_token_ref(behind).token, "SYMMETRIC") {
        return None;
    }
    (0..=behind).for_each(|_| parser.advance_token());
    let bounds = parser.parse_between(value.clone(), negated);
    Some(bounds.map(|bounds| match bounds {
        Expr::Between { expr, low, high, negated } => {
            let swapped = Expr::Between { expr: expr.clone(), low: high.clone(), high: low.clone(), negated };
            let as_given = Box::new(Expr::Between { expr, low, high, negated });
            let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
            Expr::Nested(Box::new(Expr::BinaryOp { left: as_given, op, right: Box::new(swapped) }))
        }
        other => other,
    }))
}
