//! A text that is written beside a value of another type is a value of that type, as in PostgreSQL: `ready = 't'`, `nullif(n, '7')`,
//! `bytes = '\x00'`, `CASE WHEN ... THEN '2' ELSE n END`, `'2' + 1`. DataFusion (55.2) refuses some of these, makes texts of the
//! values in others, and compares bytes with the letters of the text.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Union, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::text_casts::{is_read, values_of_texts};
use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::datafusion_repairs::floats::of_one_type;
use crate::logical::expression_type::type_of;
use crate::logical::postgres_syntax::postgres_words::{DISTINCT, NOT_DISTINCT};
use tidemill_trees::nodes::PlanTree;

/// The plan in which such texts are values.
///
/// # Errors
/// If a text is not a value of the type.
pub(crate) fn with_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Union(union) => united(union),
        LogicalPlan::Join(join) => joined(join),
        node => Ok(Transformed::no(node)),
    });
    rewrite(plan.data()?, |mut part, schema| {
        if let Expr::ScalarFunction(call) = &part
            && CHOICES.contains(&call.func.name())
        {
            check_choice(&call.args, schema)?;
        }
        let mut changed = match &mut part {
            Expr::InSubquery(list) => compared(&mut list.expr, &mut list.subquery, schema)?,
            Expr::SetComparison(list) => compared(&mut list.expr, &mut list.subquery, schema)?,
            _ => false,
        };
        for sides in of_one_type(&mut part) {
            changed |= as_values(sides, schema)?;
        }
        Ok(if changed { Transformed::yes(part) } else { Transformed::no(part) })
    })
}

/// Refuses texts that are not written out beside values of another type, of which the function would give one or the other.
fn check_choice(arguments: &[Expr], schema: &DFSchema) -> Result<()> {
    let types = arguments.iter().filter(|argument| written(argument).is_none());
    let types: Vec<DataType> = types.filter_map(|argument| type_of(argument, schema).ok()).collect();
    match types.iter().find(|one| !one.is_string() && !one.is_null()) {
        Some(other) if types.iter().any(DataType::is_string) => plan_err!(
            "a VARCHAR and a value of type {other} stand where one type is needed; convert one of them with \
             CAST(... AS ...)"
        ),
        _ => Ok(()),
    }
}

/// A value and the rows of a subquery: a text on one side is of the type of the other one.
fn compared(value: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let of_rows = subquery.subquery.schema().field(0).data_type().clone();
    if written(value).is_some() {
        let mut column = Expr::Literal(ScalarValue::try_new_null(&of_rows)?, None);
        return as_values_of(vec![value, &mut column], std::slice::from_ref(&of_rows));
    }
    let Ok(wanted) = type_of(value, schema) else { return Ok(false) };
    match with_column(&subquery.subquery, 0, &wanted)? {
        Some(plan) => {
            *subquery = subquery.with_plan(Arc::new(plan));
            Ok(true)
        }
        None => Ok(false),
    }
}

/// The inputs of a union: a column of texts that are written out is of the type that it has in the others.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let mut inputs = union.inputs.clone();
    let mut is_changed = false;
    for column in 0..union.schema.fields().len() {
        let types: Vec<DataType> = inputs
            .iter()
            .filter(|input| written_column(input, column).is_none())
            .map(|input| input.schema().field(column).data_type().clone())
            .collect();
        let Some(wanted) = type_beside_texts(&types) else { continue };
        for input in &mut inputs {
            if let Some(plan) = with_column(input, column, &wanted)? {
                *input = Arc::new(plan);
                is_changed = true;
            }
        }
    }
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The same for what INTERSECT, EXCEPT and USING compare.
fn joined(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut is_changed = false;
    for (one, other) in &join.on {
        let place = |key: &Expr, plan: &LogicalPlan| match key {
            Expr::Column(column) => plan.schema().maybe_index_of_column(column),
            _ => None,
        };
        let (Some(left), Some(right)) = (place(one, &join.left), place(other, &join.right)) else { continue };
        let of_left = join.left.schema().field(left).data_type().clone();
        let of_right = join.right.schema().field(right).data_type().clone();
        if let Some(plan) = with_column(&join.right, right, &of_left)? {
            join.right = Arc::new(plan);
            is_changed = true;
        } else if let Some(plan) = with_column(&join.left, left, &of_right)? {
            join.left = Arc::new(plan);
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// The text of a column that is one text in all rows of a plan.
fn written_column(plan: &LogicalPlan, column: usize) -> Option<String> {
    match plan {
        LogicalPlan::Projection(projection) => {
            written(unaliased(&projection.expr[column])).map(str::to_owned)
        }
        LogicalPlan::SubqueryAlias(alias) => written_column(&alias.input, column),
        LogicalPlan::Distinct(Distinct::All(input)) => written_column(input, column),
        _ => None,
    }
}

/// The plan in which such a column is of another type.
fn with_column(plan: &LogicalPlan, column: usize, wanted: &DataType) -> Result<Option<LogicalPlan>> {
    let Some(text) = written_column(plan, column) else { return Ok(None) };
    let Some(wanted) = type_beside_texts(std::slice::from_ref(wanted)) else { return Ok(None) };
    with_column_of(plan, column, &value(&text, &wanted)?).map(Some)
}

fn with_column_of(plan: &LogicalPlan, column: usize, value: &Expr) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let (relation, name) = projection.expr[column].qualified_name();
            let mut selected = projection.expr.clone();
            selected[column] = value.clone().alias_qualified(relation, name);
            let projection = Projection::try_new(selected, Arc::clone(&projection.input))?;
            Ok(LogicalPlan::Projection(projection))
        }
        plan => {
            let input = with_column_of(plan.inputs()[0], column, value)?;
            plan.with_new_exprs(plan.expressions(), vec![input])
        }
    }
}

fn unaliased(expression: &Expr) -> &Expr {
    match expression {
        Expr::Alias(alias) => unaliased(&alias.expr),
        expression => expression,
    }
}

/// Plans operators with such a text before the planner asks for the types of their operands.
#[derive(Debug)]
pub(crate) struct TextOperands;

impl ExprPlanner for TextOperands {
    fn plan_array_literal(
        &self,
        mut exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        as_values(exprs.iter_mut().collect(), schema)?;
        Ok(PlannerResult::Original(exprs))
    }

    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, mut left, mut right } = expr;
        match &op {
            BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq => {
                as_values(vec![&mut left, &mut right], schema)?;
            }
            BinaryOperator::StringConcat => join_row(&mut left, &mut right, schema),
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo => as_number(&mut left, &mut right, schema),
            BinaryOperator::Custom(name) if [DISTINCT, NOT_DISTINCT].contains(&name.as_str()) => {
                as_values(vec![&mut left, &mut right], schema)?;
                let op =
                    if name == DISTINCT { Operator::IsDistinctFrom } else { Operator::IsNotDistinctFrom };
                let compared = BinaryExpr::new(Box::new(left), op, Box::new(right));
                return Ok(PlannerResult::Planned(Expr::BinaryExpr(compared)));
            }
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Makes a text of a row that is joined with a text. What else is joined, the planner takes as it is.
fn join_row(left: &mut Expr, right: &mut Expr, schema: &DFSchema) {
    let is_text = |side: &Expr| type_of(side, schema).is_ok_and(|data_type| data_type.is_string());
    let is_row = |side: &Expr| matches!(type_of(side, schema), Ok(DataType::Struct(_) | DataType::Map(..)));
    let row = match (&*left, &*right) {
        (row, text) if is_row(row) && is_text(text) => left,
        (text, row) if is_row(row) && is_text(text) => right,
        _ => return,
    };
    *row = cast(std::mem::take(row), DataType::Utf8);
}

/// Makes values of the texts among the parts of one type. Returns whether there were such texts.
fn as_values(sides: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let others = sides.iter().filter(|side| written(side).is_none());
    let others: Vec<DataType> = others.filter_map(|side| type_of(side, schema).ok()).collect();
    if others.contains(&DataType::Boolean) && others.iter().any(DataType::is_string) {
        return plan_err!(
            "a BOOLEAN and a VARCHAR stand where one type is needed; convert one of them with CAST(... AS ...)"
        );
    }
    as_values_of(sides, &others)
}

/// Makes values of the texts among these, which stand beside values of other types.
fn as_values_of(sides: Vec<&mut Expr>, others: &[DataType]) -> Result<bool> {
    if !sides.iter().any(|side| written(side).is_some()) {
        return Ok(false);
    }
    // With types that do not fit each other, the planner says what does not fit.
    let Some(wanted) = type_beside_texts(others) else { return Ok(false) };
    for side in sides {
        if let Some(text) = written(side) {
            *side = value(text, &wanted)?;
        }
    }
    Ok(true)
}

/// Returns the type of texts that stand beside values of these types; `None` if they stay texts.
fn type_beside_texts(others: &[DataType]) -> Option<DataType> {
    let others: Vec<DataType> = others.iter().filter(|one| !one.is_null()).cloned().collect();
    let wanted = type_union_resolution(&others)?;
    (!wanted.is_string() && !wanted.is_nested()).then_some(wanted)
}

/// Returns the value that a text is of this type.
fn value(text: &str, wanted: &DataType) -> Result<Expr> {
    if is_read(wanted) && !wanted.is_decimal() {
        let texts = ScalarValue::from(text).to_array()?;
        let values = values_of_texts(&texts, wanted, false)?;
        return Ok(Expr::Literal(ScalarValue::try_from_array(&values, 0)?, None));
    }
    Ok(match wanted {
        // Such a number may have more digits than the other ones.
        DataType::Decimal128(..) => match decimal(text) {
            Some(decimal) => Expr::Literal(decimal, None),
            None => cast(lit(text), wanted.clone()),
        },
        wanted => cast(lit(text.trim()), wanted.clone()),
    })
}

/// Returns a number that is written out, with all its digits; `None` if it is not one, or has an exponent.
fn decimal(text: &str) -> Option<ScalarValue> {
    let text = text.trim();
    let scale = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let unscaled: i128 = text.replacen('.', "", 1).parse().ok()?;
    let digits = unscaled.unsigned_abs().max(1).ilog10() as usize + 1;
    let precision = u8::try_from(digits.max(scale)).ok().filter(|digits| *digits <= 38)?;
    Some(ScalarValue::Decimal128(Some(unscaled), precision, i8::try_from(scale).ok()?))
}

/// The text of a constant.
fn written(side: &Expr) -> Option<&str> {
    match side {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// Makes a text in arithmetic with a number a number of its type.
fn as_number(left: &mut Expr, right: &mut Expr, schema: &DFSchema) {
    let (text, other) = match (written(left), written(right)) {
        (Some(_), None) => (left, right),
        (None, Some(_)) => (right, left),
        _ => return,
    };
    if let Ok(number) = other.get_type(schema)
        && number.is_numeric()
    {
        *text = cast(std::mem::take(text), number);
    }
}

/// Functions that give one of their arguments, with a text beside other values: the planner asks for the type of a call before the
/// text can become a value.
pub(crate) const CHOICES: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

/// Returns such a function, whose texts are of the type of the other arguments.
pub(crate) fn choice(function: ScalarUDF) -> ScalarUDF {
    let signature = Signature::user_defined(function.signature().volatility);
    ScalarUDF::new_from_impl(Choice { function, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Choice {
    function: ScalarUDF,
    signature: Signature,
}

impl ScalarUDFImpl for Choice {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let others: Vec<DataType> = types.iter().filter(|one| !one.is_string()).cloned().collect();
        if others.len() < types.len()
            && let Some(wanted) = type_beside_texts(&others)
        {
            return Ok(vec![wanted; types.len()]);
        }
        // DataFusion has no common type of some values and NULL.
        let known: Vec<&DataType> = types.iter().filter(|one| !one.is_null()).collect();
        if let Some(first) = known.first()
            && known.iter().all(|other| other == first)
            && known.len() < types.len()
        {
            return Ok(vec![(*first).clone(); types.len()]);
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|one| Arc::new(Field::new("", one.clone(), true))).collect();
        let fields = fields_with_udf(&fields, &self.function)?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.inner().return_field_from_args(arguments)
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.inner().simplify(arguments, info)
    }

    fn short_circuits(&self) -> bool {
        self.function.inner().short_circuits()
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.function.inner().conditional_arguments(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.function.inner().invoke_with_args(arguments)
    }
}
