//! Expressions.

use datafusion::sql::sqlparser::ast::{
    Array, CastKind, CeilFloorKind, DateTimeField, Expr, Interval, LambdaFunction, TypedString, Value,
    ValueWithSpan,
};

use super::{Checked, Clauses, PLANNED, data_type};

impl Clauses<'_> {
    pub(super) fn expression(&self, expression: &Expr) -> Checked {
        let refused = |what: &str, hint: &str| {
            self.node(expression, format!("{what} is not part of the language"), hint)
        };
        match expression {
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::CompoundFieldAccess { root: _, access_chain: _ }
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(_, _)
            | Expr::IsNotDistinctFrom(_, _)
            | Expr::InList { expr: _, list: _, negated: _ }
            | Expr::InSubquery { expr: _, subquery: _, negated: _ }
            | Expr::Between { expr: _, negated: _, low: _, high: _ }
            | Expr::AnyOp { left: _, compare_op: _, right: _, is_some: _ }
            | Expr::AllOp { left: _, compare_op: _, right: _ }
            | Expr::UnaryOp { op: _, expr: _ }
            | Expr::Extract { field: _, syntax: _, expr: _ }
            | Expr::Position { expr: _, r#in: _ }
            | Expr::Substring { expr: _, substring_from: _, substring_for: _, special: _, shorthand: _ }
            | Expr::Overlay { expr: _, overlay_what: _, overlay_from: _, overlay_for: _ }
            | Expr::Nested(_)
            | Expr::Value(_)
            | Expr::Case { case_token: _, end_token: _, operand: _, conditions: _, else_result: _ }
            | Expr::Exists { subquery: _, negated: _ }
            | Expr::Subquery(_)
            | Expr::GroupingSets(_)
            | Expr::Cube(_)
            | Expr::Rollup(_)
            | Expr::Tuple(_)
            | Expr::Named { expr: _, name: _ }
            | Expr::Dictionary(_)
            | Expr::Map(_)
            | Expr::Array(Array { elem: _, named: _ })
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(_, _) => PLANNED,
            Expr::BinaryOp { left: _, op, right: _ } => match super::operator::refused(op) {
                Some(hint) => {
                    self.node(expression, format!("the operator {op} is not part of the language"), hint)
                }
                None => PLANNED,
            },
            Expr::Function(call) => self.call(call),
            Expr::Cast { kind, expr: _, data_type, array, format } => {
                match kind {
                    CastKind::Cast | CastKind::TryCast | CastKind::SafeCast | CastKind::DoubleColon => {}
                }
                if *array {
                    refused("CAST(... AS ... ARRAY)", "write the type of a list as BIGINT[]")?;
                }
                if format.is_some() {
                    refused("CAST with FORMAT", "use to_char or to_timestamp with a pattern")?;
                }
                self.cast_to(expression, data_type)
            }
            Expr::TypedString(TypedString { data_type, value: _, uses_odbc_syntax: _ }) => {
                match data_type::check_stored(data_type) {
                    Err(refusal) => self.node(expression, refusal.message, &refusal.hint),
                    Ok(()) => PLANNED,
                }
            }
            Expr::Interval(interval) => self.interval(interval, expression),
            Expr::AtTimeZone { timestamp: _, time_zone } => match time_zone.as_ref() {
                Expr::Interval(_) => PLANNED,
                // The value of a parameter is put in before the statement is planned.
                Expr::Value(ValueWithSpan {
                    value: Value::SingleQuotedString(_) | Value::Placeholder(_),
                    span: _,
                }) => PLANNED,
                other => {
                    self.node(other, "a time zone must be a string", "write AT TIME ZONE 'Europe/Berlin'")
                }
            },
            Expr::Ceil { expr: _, field } | Expr::Floor { expr: _, field } => match field {
                CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => PLANNED,
                CeilFloorKind::DateTimeField(_) => {
                    refused("this way of rounding to a unit of time", "use date_trunc('hour', time)")
                }
                CeilFloorKind::Scale(_) => refused("rounding up or down to digits", "use round(x, digits)"),
            },
            Expr::Trim { trim_where: _, trim_what: _, expr: _, trim_characters } => match trim_characters {
                Some(characters) if characters.len() > 1 => {
                    refused("TRIM with more than two arguments", "write all characters in one string")
                }
                Some(_) | None => PLANNED,
            },
            Expr::Like { negated: _, any, expr: _, pattern: _, escape_char }
            | Expr::ILike { negated: _, any, expr: _, pattern: _, escape_char } => {
                if *any {
                    refused("LIKE ANY", "join the conditions with OR")?;
                }
                match escape_char {
                    Some(ValueWithSpan { value: Value::SingleQuotedString(letter), span: _ })
                        if letter.chars().nth(1).is_none() =>
                    {
                        PLANNED
                    }
                    Some(escape) => {
                        let message = "the escape character of LIKE must be one letter in quotes, or none";
                        self.words(escape.span, &[], message.into(), "write ESCAPE '/'")
                    }
                    None => PLANNED,
                }
            }
            Expr::RLike { negated: _, expr: _, pattern: _, regexp } => {
                let word = if *regexp { "REGEXP" } else { "RLIKE" };
                let hint = "write text ~ 'pattern', or regexp_like(text, 'pattern')";
                self.anywhere(&[word], format!("{word} is not part of the language"), hint)
            }
            Expr::SimilarTo { negated: _, expr: _, pattern, escape_char: _ } => match pattern.as_ref() {
                Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), span: _ }) => PLANNED,
                other => self.node(
                    other,
                    "the pattern of SIMILAR TO must be a string",
                    "write text ~ pattern, where the pattern is a regular expression",
                ),
            },
            Expr::IsNormalized { expr: _, form: _, negated: _ } => refused("IS NORMALIZED", "remove it"),
            Expr::InUnnest { expr: _, array_expr: _, negated: _ } => {
                refused("IN UNNEST", "write value = ANY(list)")
            }
            Expr::Convert {
                is_try: _,
                expr: _,
                data_type: _,
                charset: _,
                target_before_value: _,
                styles: _,
            } => refused("CONVERT", "write CAST(value AS type)"),
            Expr::Collate { expr: _, collation: _ } => {
                refused("COLLATE", "texts are compared by their code points; use lower(text) to ignore case")
            }
            Expr::JsonAccess { value: _, path: _ } => {
                refused("a path after a colon", "declare the column as a struct: column['field']")
            }
            Expr::Prefixed { prefix: _, value: _ } => {
                refused("a prefix before a value", "write CAST(value AS type)")
            }
            Expr::Struct { values: _, fields } => {
                if fields.is_empty() {
                    PLANNED
                } else {
                    refused("STRUCT with types", "write named_struct('a', 1, 'b', 2)")
                }
            }
            Expr::MatchAgainst { columns: _, match_value: _, opt_search_modifier: _ } => {
                refused("MATCH ... AGAINST", "write text ILIKE '%word%'")
            }
            Expr::OuterJoin(_) => refused("(+)", "write LEFT JOIN"),
            Expr::Prior(_) => refused("PRIOR", "join the source with itself, once for each level"),
            Expr::Lambda(LambdaFunction { params: _, body: _, syntax: _ }) => {
                refused("a function without a name", "register your own function")
            }
            Expr::MemberOf(_) => refused("MEMBER OF", "write value = ANY(list)"),
        }
    }

    fn interval(&self, interval: &Interval, expression: &Expr) -> Checked {
        let Interval {
            value: _,
            leading_field: _,
            leading_precision,
            last_field,
            fractional_seconds_precision,
        } = interval;
        let plain =
            leading_precision.is_none() && last_field.is_none() && fractional_seconds_precision.is_none();
        if plain {
            PLANNED
        } else {
            let message = "an interval of two units or with a precision is not part of the language";
            self.node(expression, message, "write INTERVAL '1 day 2 hours'")
        }
    }
}
