//! Fields of structs whose names have capitals: an unquoted name finds them if exactly one matches, as it does with columns.
//! DataFusion lower-cases unquoted names, so `place.shopId` would not find the field `shopId` of a file.

use std::ops::ControlFlow;

use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion::functions::core::get_field;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, lit};

use datafusion::sql::sqlparser::ast::{self, AccessExpr, Value};

use crate::statement::in_other_letters;
use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Writes `(place).name` with the name as a text, which the planner reads.
pub(crate) fn translate(node: &mut impl Node) {
    let _ = walk_expressions_mut(node, |expression| {
        if let ast::Expr::CompoundFieldAccess { root, access_chain } = expression {
            // Names that follow a name may be those of a table and its column: `t.list[1]`.
            let is_name = |access: &&AccessExpr| matches!(access, AccessExpr::Dot(ast::Expr::Identifier(_)));
            let of_column = match **root {
                ast::Expr::Identifier(_) => access_chain.iter().take_while(is_name).count(),
                _ => 0,
            };
            for access in &mut access_chain[of_column..] {
                if let AccessExpr::Dot(field) = access
                    && let ast::Expr::Identifier(name) = field
                {
                    let quoted = name.quote_style.map(|_| name.value.clone());
                    let name = quoted.unwrap_or_else(|| name.value.to_lowercase());
                    *field = ast::Expr::value(Value::SingleQuotedString(name));
                }
            }
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Plans `place.name` and `place['name']` of structs.
#[derive(Debug)]
pub(super) struct FieldNames;

impl ExprPlanner for FieldNames {
    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let column = Expr::Column((qualifier, field).into());
        let (mut part, mut data_type) = (column, Some(field.data_type()));
        for name in nested_names {
            let spelled = data_type.and_then(|data_type| spelled(data_type, name)).unwrap_or(name);
            data_type = data_type.and_then(|data_type| type_of_field(data_type, spelled));
            part = get_field().call(vec![part, lit(spelled)]);
        }
        Ok(PlannerResult::Planned(part))
    }

    fn plan_field_access(
        &self,
        mut access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if let GetFieldAccess::NamedStructField { name: ScalarValue::Utf8(Some(name)) } =
            &mut access.field_access
            && let Ok(data_type) = access.expr.get_type(schema)
            && let Some(spelled) = spelled(&data_type, name)
        {
            *name = spelled.to_owned();
        }
        Ok(PlannerResult::Original(access))
    }
}

/// The only field of a struct whose name differs only in case, if none has exactly this name; of a row, `f1` is the first field.
fn spelled<'a>(data_type: &'a DataType, name: &str) -> Option<&'a str> {
    let DataType::Struct(fields) = data_type else { return None };
    match fields.find(name) {
        Some(_) => None,
        None => in_other_letters(name, fields.iter().map(|field| field.name().as_str()))
            .or_else(|| field_of_row(fields, name)),
    }
}

/// The field that PostgreSQL calls so of a row that was written as `ROW(a, b)`.
fn field_of_row<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let place = name.strip_prefix(['f', 'F'])?.parse::<usize>().ok()?.checked_sub(1)?;
    let written = fields.iter().enumerate().all(|(place, field)| *field.name() == format!("c{place}"));
    fields.get(place).filter(|_| written).map(|field| field.name().as_str())
}

fn type_of_field<'a>(data_type: &'a DataType, name: &str) -> Option<&'a DataType> {
    let DataType::Struct(fields) = data_type else { return None };
    fields.find(name).map(|(_, field)| field.data_type())
}
