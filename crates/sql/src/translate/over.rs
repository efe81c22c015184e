//! Running functions: `OVER (PARTITION BY key ORDER BY event_time ...)`.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition,
};
use tidemill_operators::over::{
    Frame, Function, FunctionSpec, Over, OverSpec, RunningAggregate, output_schema,
};

use super::columns::{schema_of, unique};
use super::{Relation, Role, Translator, as_column, column_at, refuse};

const EXAMPLE: &str = "write OVER (PARTITION BY key ORDER BY event_time), with the watermark's column";

impl Translator {
    pub(super) fn over(&mut self, window: &Window) -> Result<Relation> {
        let relation = self.output(&window.input)?;
        if self.takes_changes && !self.runs_in_order(window, &relation) {
            return self.changing_windows(window, relation);
        }
        if !relation.is_stream() {
            return Err(refuse(
                "a running function over a table (an aggregate without a window) has no order",
                "apply it to the stream from which the table is computed",
            ));
        }
        let functions: Vec<WindowFunction> =
            window.window_expr.iter().map(window_function).collect::<Result<_>>()?;
        let schema = window.input.schema();
        let inputs = schema.fields().len();
        // Keys and arguments that are expressions are computed behind the input's columns.
        let mut all: Vec<Expr> = (0..inputs).map(|index| column_at(schema, index)).collect();
        let first = &functions[0].params;
        let keys: Vec<usize> =
            first.partition_by.iter().map(|key| self.place(&mut all, key, schema)).collect();
        for other in &functions[1..] {
            let same =
                other.params.partition_by == first.partition_by && other.params.order_by == first.order_by;
            if !same {
                return Err(refuse(
                    "functions over different windows in one SELECT",
                    "compute them in separate subqueries",
                ));
            }
        }
        let (event_time, delay_ns) = event_time(&functions[0], &relation, schema)?;
        let mut specs = Vec::new();
        for (function, field) in functions.iter().zip(window.schema.fields().iter().skip(inputs)) {
            let function = self.running(function, &mut all, schema)?;
            specs.push(FunctionSpec { name: field.name().clone(), function });
        }
        let rows =
            if all.len() == inputs { relation } else { self.compute(relation, schema, &[], &all, None)? };
        let partitions = self.partitions(keys.len());
        let spec = OverSpec {
            schema: Arc::clone(&rows.schema),
            keys: keys.clone(),
            event_time,
            functions: specs,
            ordered: rows.ordered,
            watermark: self.watermark(&rows, delay_ns),
            rows_max: self.rows_max(partitions),
            late: self.late.clone(),
        };
        let output = output_schema(&spec).map_err(|cause| refuse(cause.to_string(), EXAMPLE))?;
        Over::new(spec.clone()).map_err(|cause| refuse(cause.to_string(), EXAMPLE))?;
        let output = unique(&output);
        let name = format!(
            "over: {}",
            functions.iter().map(|function| function.fun.name().to_string()).collect::<Vec<_>>().join(", ")
        );
        let inputs_of = [(rows.stream, keys)];
        let failed = self.failed_results.clone();
        let stream = self.operator(&name, &inputs_of, partitions, Arc::clone(&output), move |_| {
            let over = Over::new(spec.clone()).expect("checked when it was planned");
            Box::new(over.failed_results(failed.clone()))
        });
        let computed = rows.roles.len();
        let mut roles = rows.roles.clone();
        roles.resize(output.fields().len(), Role::None);
        let over = Relation { selection: None, stream, schema: output, roles, ..rows };
        let places: Vec<usize> = (0..inputs).chain(computed..computed + functions.len()).collect();
        let selected = self.select(over, &places, &window.schema)?;
        Ok(Relation { schema: schema_of(&window.schema), ..selected })
    }

    /// Whether all functions are computed once and for all as the rows come, in the order of an event time.
    fn runs_in_order(&self, window: &Window, relation: &Relation) -> bool {
        let schema = window.input.schema();
        let Ok(functions) = window.window_expr.iter().map(window_function).collect::<Result<Vec<_>>>() else {
            return false;
        };
        let first = &functions[0].params;
        let runs = |function: &WindowFunction| {
            let params = &function.params;
            (&params.partition_by, &params.order_by) == (&first.partition_by, &first.order_by)
                && event_time(function, relation, schema).is_ok()
                && self.running(function, &mut Vec::new(), schema).is_ok()
        };
        relation.is_stream() && functions.iter().all(runs)
    }

    /// The column of an expression, computed after the others if it is not one of them.
    pub(super) fn place(&self, all: &mut Vec<Expr>, expression: &Expr, schema: &DFSchema) -> usize {
        as_column(expression, schema).unwrap_or_else(|| {
            let known = all.iter().position(|known| known == expression);
            known.unwrap_or_else(|| {
                all.push(expression.clone());
                all.len() - 1
            })
        })
    }

    fn running(&self, function: &WindowFunction, all: &mut Vec<Expr>, schema: &DFSchema) -> Result<Function> {
        let params = &function.params;
        if params.distinct || params.null_treatment.is_some() {
            return Err(refuse(
                "DISTINCT and IGNORE NULLS are not supported in running functions",
                "remove them",
            ));
        }
        let frame = frame(&params.window_frame);
        let name = function.fun.name().to_string();
        let column = |all: &mut Vec<Expr>| match params.args.first() {
            Some(argument) => Ok(self.place(all, argument, schema)),
            None => Err(refuse(format!("{name} needs an argument"), "name a column")),
        };
        if let WindowFunctionDefinition::AggregateUDF(aggregate) = &function.fun {
            let aggregate = match aggregate.name() {
                "count" => RunningAggregate::Count,
                "sum" => RunningAggregate::Sum,
                "avg" => RunningAggregate::Avg,
                "min" => RunningAggregate::Min,
                "max" => RunningAggregate::Max,
                other => {
                    return Err(refuse(
                        format!("{other} is not supported as a running aggregate"),
                        "use count, sum, avg, min or max, or GROUP BY with a window",
                    ));
                }
            };
            let counts_rows = matches!(params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null());
            let column = if aggregate == RunningAggregate::Count && counts_rows {
                None
            } else {
                match params.args.first() {
                    Some(argument) if aggregate == RunningAggregate::Avg => {
                        let exact = with_whole_numbers(argument, schema)?;
                        Some(self.place(all, &exact, schema))
                    }
                    _ => Some(column(all)?),
                }
            };
            let filter = params.filter.as_deref().map(|filter| self.place(all, filter, schema));
            return Ok(Function::Aggregate { aggregate, column, filter, frame: frame? });
        }
        match name.as_str() {
            "row_number" => Ok(Function::RowNumber),
            "rank" => Ok(Function::Rank),
            "dense_rank" => Ok(Function::DenseRank),
            "lag" => {
                let rows = constant(params.args.get(1))?.map_or(Ok(1), |value| positive(&value))?;
                let default = constant(params.args.get(2))?.filter(|value| !value.is_null());
                let default = default.map(|value| value.to_array_of_size(1)).transpose()?;
                Ok(Function::Lag { column: column(all)?, rows, default })
            }
            "first_value" => Ok(Function::FirstValue { column: column(all)?, frame: frame? }),
            "last_value" => Ok(Function::LastValue { column: column(all)?, frame: frame? }),
            "nth_value" => {
                let n = constant(params.args.get(1))?.map_or(Ok(1), |value| positive(&value))?;
                Ok(Function::NthValue { column: column(all)?, n, frame: frame? })
            }
            other => Err(refuse(
                format!("{other} cannot run on a stream, because it depends on later rows"),
                "use lag, first_value, last_value, nth_value, row_number, rank or dense_rank",
            )),
        }
    }
}

/// The argument of a mean. DataFusion converts integers to floating-point numbers, whose sum would be rounded. They stay
/// a column of their own, so that the state of older versions has the same columns.
fn with_whole_numbers(argument: &Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::Cast(Cast { expr, field }) = argument else { return Ok(argument.clone()) };
    let values = expr.get_type(schema)?;
    if *field.data_type() != DataType::Float64 || !values.is_integer() {
        return Ok(argument.clone());
    }
    let widest = if values.is_unsigned_integer() { DataType::UInt64 } else { DataType::Int64 };
    Ok(Expr::Cast(Cast::new(expr.clone(), widest)))
}

pub(super) fn window_function(expression: &Expr) -> Result<WindowFunction> {
    match expression.clone().unalias() {
        Expr::WindowFunction(function) => Ok(*function),
        other => Err(refuse(format!("'{other}' is not a window function"), EXAMPLE)),
    }
}

/// The event time by which a function is ordered.
fn event_time(function: &WindowFunction, relation: &Relation, schema: &DFSchema) -> Result<(usize, i64)> {
    let by = match function.params.order_by.as_slice() {
        [by] if by.asc => as_column(&by.expr, schema),
        _ => None,
    };
    by.and_then(|column| Some((column, relation.roles[column].time_delay_ns()?))).ok_or_else(|| {
        refuse(
            format!(
                "{} is not ordered by an event time, ascending, so its order is never final",
                function.fun.name()
            ),
            EXAMPLE,
        )
    })
}

/// Frames end at the current row, because later rows are not known yet.
fn frame(frame: &WindowFrame) -> Result<Frame> {
    if !matches!(&frame.end_bound, WindowFrameBound::CurrentRow) {
        return Err(refuse(
            "a frame that extends beyond the current row needs later rows",
            "end the frame at CURRENT ROW",
        ));
    }
    let WindowFrameBound::Preceding(preceding) = &frame.start_bound else {
        return match frame.start_bound {
            WindowFrameBound::CurrentRow if frame.units == WindowFrameUnits::Rows => {
                Ok(Frame::Rows { preceding: Some(0) })
            }
            _ => Ok(Frame::Range { preceding_ns: Some(0) }),
        };
    };
    match frame.units {
        WindowFrameUnits::Rows if preceding.is_null() => Ok(Frame::Rows { preceding: None }),
        WindowFrameUnits::Rows => Ok(Frame::Rows { preceding: Some(positive_or_zero(preceding)?) }),
        WindowFrameUnits::Range if preceding.is_null() => Ok(Frame::Range { preceding_ns: None }),
        WindowFrameUnits::Range => {
            Ok(Frame::Range { preceding_ns: Some(crate::logical::interval_ns(preceding)?) })
        }
        WindowFrameUnits::Groups => {
            Err(refuse("GROUPS frames are not supported on streams", "use ROWS or RANGE"))
        }
    }
}

fn constant(argument: Option<&Expr>) -> Result<Option<ScalarValue>> {
    match argument {
        None => Ok(None),
        Some(Expr::Literal(value, _)) => Ok(Some(value.clone())),
        Some(Expr::Cast(cast)) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => Ok(Some(value.cast_to(cast.field.data_type())?)),
            other => Err(refuse(format!("expected a constant, found {other}"), "write a number")),
        },
        Some(other) => Err(refuse(format!("expected a constant, found {other}"), "write a number")),
    }
}

fn positive(value: &ScalarValue) -> Result<usize> {
    match positive_or_zero(value)? {
        0 => Err(refuse("expected a number of rows from 1, found 0", "write 1 or more")),
        rows => Ok(rows),
    }
}

fn positive_or_zero(value: &ScalarValue) -> Result<usize> {
    let rows = match value.cast_to(&arrow_schema::DataType::Int64)? {
        ScalarValue::Int64(Some(rows)) => usize::try_from(rows).ok(),
        _ => None,
    };
    rows.ok_or_else(|| refuse(format!("expected a number of rows, found {value}"), "write a whole number"))
}
