//! Operators.

use datafusion::sql::sqlparser::ast::BinaryOperator;

/// What to write instead of an operator that is not part of the language; `None` if it is.
pub(super) fn refused(operator: &BinaryOperator) -> Option<&'static str> {
    use BinaryOperator as B;
    match operator {
        B::Plus
        | B::Minus
        | B::Multiply
        | B::Divide
        | B::Modulo
        | B::StringConcat
        | B::Gt
        | B::Lt
        | B::GtEq
        | B::LtEq
        | B::Spaceship
        | B::Eq
        | B::NotEq
        | B::And
        | B::Or
        | B::BitwiseOr
        | B::BitwiseAnd
        | B::BitwiseXor
        | B::DuckIntegerDivide
        | B::MyIntegerDivide
        | B::PGBitwiseXor
        | B::PGBitwiseShiftLeft
        | B::PGBitwiseShiftRight
        | B::PGExp
        | B::PGRegexMatch
        | B::PGRegexIMatch
        | B::PGRegexNotMatch
        | B::PGRegexNotIMatch
        | B::PGLikeMatch
        | B::PGILikeMatch
        | B::PGNotLikeMatch
        | B::PGNotILikeMatch
        | B::PGCustomBinaryOperator(_)
        | B::AtArrow
        | B::ArrowAt
        | B::HashArrow
        | B::HashLongArrow
        | B::HashMinus
        | B::Question
        | B::QuestionAnd
        | B::QuestionPipe
        | B::Overlaps
        | B::PGOverlap
        // What is before them says more of what is wrong: it may be a function without a name.
        | B::Arrow
        | B::LongArrow => None,
        B::Xor => Some("write a <> b for truth values, or a # b for the bits of numbers"),
        B::PGStartsWith => Some("write starts_with(text, prefix)"),
        B::Match | B::Regexp => Some("write text ~ 'pattern'"),
        B::Assignment => Some("write ="),
        B::AtQuestion | B::AtAt => Some("write json -> 'key', json #> '{a,b}' or json ? 'key'"),
        B::Custom(_)
        | B::DoubleHash
        | B::LtDashGt
        | B::AndLt
        | B::AndGt
        | B::LtLtPipe
        | B::PipeGtGt
        | B::AndLtPipe
        | B::PipeAndGt
        | B::LtCaret
        | B::GtCaret
        | B::QuestionHash
        | B::QuestionDash
        | B::QuestionDashPipe
        | B::QuestionDoublePipe
        | B::At
        | B::TildeEq => Some("SHOW FUNCTIONS lists the functions"),
    }
}
