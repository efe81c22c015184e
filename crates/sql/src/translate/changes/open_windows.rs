//! Windows that nothing closes: over rows that come and go, or over times without a watermark. Which rows they have is kept up to
//! date.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, Result, ScalarValue, UnnestOptions};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, SortExpr, cast, lit};
use tidemill_engine::PartitionFunction;
use tidemill_operators::changes::{SessionBound, SessionBounds};

use super::windowed::Functions;
use crate::logical::{WindowAssign, WindowKind, hop_starts};
use crate::text::duration::display_ns;
use crate::translate::columns::schema_of;
use crate::translate::{Relation, Role, Translator, Window, as_column, column_at, refuse};

/// The rows of a relation with the bounds of their windows. Sessions depend on what rows are grouped by, so their bounds are known in
/// an aggregation.
pub(super) fn open_windows(translator: &mut Translator, assign: &WindowAssign) -> Result<Relation> {
    if assign.empty.is_some() {
        return Err(refuse(
            "windows without rows are known only where windows close: over the event time of rows that only come",
            "remove empty => ...",
        ));
    }
    let lengths = match assign.kind {
        WindowKind::Tumble { size_ns, offset_ns } => (size_ns, size_ns, offset_ns),
        WindowKind::Hop { size_ns, slide_ns, offset_ns } => (size_ns, slide_ns, offset_ns),
        WindowKind::Session { gap_ns } => return open_sessions(translator, assign, gap_ns),
    };
    let input = assign.input.schema();
    let columns = |schema: &DFSchema| -> Vec<Expr> {
        (0..input.fields().len()).map(|index| column_at(schema, index)).collect()
    };
    let window_type = assign.schema.field(input.fields().len()).data_type().clone();
    let time = cast(Expr::Column(assign.time.clone()), window_type);
    let starts = format!("windows that stay open: {}", lengths_text(lengths));
    let listed = columns(input).into_iter().chain([hop_starts(time, lengths).alias(&starts)]);
    let unnested =
        LogicalPlanBuilder::from(assign.input.as_ref().clone()).project(listed)?.unnest_column_with_options(
            Column::new_unqualified(&starts),
            UnnestOptions::new().with_preserve_nulls(false),
        )?;
    let start = Expr::Column(Column::new_unqualified(&starts));
    let size = lit(ScalarValue::new_interval_mdn(0, 0, lengths.0));
    let own = columns(unnested.schema());
    let bounds = [start.clone().alias("window_start"), (start + size).alias("window_end")];
    let windows = translator.output(&unnested.project(own.into_iter().chain(bounds))?.build()?)?;
    Ok(Relation { schema: schema_of(&assign.schema), ..windows })
}

/// The rows with their times in the place of the bounds of their sessions.
fn open_sessions(translator: &mut Translator, assign: &WindowAssign, gap_ns: i64) -> Result<Relation> {
    let relation = translator.output(&assign.input)?;
    let relation = translator.weighted(relation)?;
    let input = assign.input.schema();
    let bounds = input.fields().len();
    let time = Expr::Column(assign.time.clone());
    let bound = cast(time.clone(), assign.schema.field(bounds).data_type().clone());
    let columns = (0..bounds).map(|index| column_at(input, index));
    let columns: Vec<Expr> =
        columns.chain(["window_start", "window_end"].map(|name| bound.clone().alias(name))).collect();
    let mut assigned =
        translator.compute(relation, input, &[time.is_not_null()], &columns, Some(&assign.schema))?;
    translator.windows += 1;
    let (kind, id) = (WindowKind::Session { gap_ns }, translator.windows);
    let window = Window { kind, id, delay_ns: 0, empty: None, is_computed: false };
    assigned.roles[bounds] = Role::WindowStart(window);
    assigned.roles[bounds + 1] = Role::WindowEnd(window);
    Ok(assigned)
}

/// The rows with the bounds of their sessions computed, if they are grouped by them: the rows of each group have their own. Conditions apply
/// behind it, to rows of sessions that are known.
pub(super) fn with_sessions(
    translator: &mut Translator,
    relation: Relation,
    schema: &DFSchema,
    groups: &[Expr],
) -> Result<Relation> {
    let session = |expression: &Expr| {
        let column = as_column(expression, schema)?;
        let window = relation.roles[column].window().filter(|window| !window.is_computed)?;
        matches!(window.kind, WindowKind::Session { .. }).then_some((column, window))
    };
    let (bounds, keys): (Vec<&Expr>, Vec<&Expr>) = groups.iter().partition(|group| session(group).is_some());
    let Some((column, window)) = bounds.first().and_then(|bound| session(bound)) else {
        return Ok(relation);
    };
    if bounds.iter().any(|bound| session(bound).is_some_and(|(_, other)| other.id != window.id)) {
        return Err(refuse("rows are grouped by two different windows", "group by one of them"));
    }
    let WindowKind::Session { gap_ns } = window.kind else { return Ok(relation) };
    let roles = relation.roles.clone();
    let keys: Vec<Expr> = keys.into_iter().cloned().collect();
    let order = [SortExpr::new(column_at(schema, column), true, false)];
    let held = Relation { roles: vec![Role::None; roles.len()], ..relation };
    let (rows, partition, order) = translator.divided_and_ordered(held, schema, (&keys, &order))?;
    let data_type = rows.schema.field(column).data_type().clone();
    let of = |bound| {
        let bounds = SessionBounds { time: column, gap_ns, bound, data_type: data_type.clone() };
        Arc::new(bounds) as Arc<dyn PartitionFunction>
    };
    let first = rows.schema.fields().len();
    let functions = Functions {
        functions: vec![of(SessionBound::Start), of(SessionBound::End)],
        names: vec!["session start".to_owned(), "session end".to_owned()],
        text: format!("sessions that stay open: {}", display_ns(gap_ns)),
    };
    let with_bounds = translator.with_functions(rows, (partition, order), functions)?;
    let place = |(index, role): (usize, &Role)| match role {
        Role::WindowStart(own) if own.id == window.id => first,
        Role::WindowEnd(own) if own.id == window.id => first + 1,
        _ => index,
    };
    let places: Vec<usize> = roles.iter().enumerate().map(place).collect();
    let computed = translator.select(with_bounds, &places, schema)?;
    Ok(Relation { schema: schema_of(schema), ..computed })
}

fn lengths_text((size_ns, slide_ns, _): (i64, i64, i64)) -> String {
    if size_ns == slide_ns {
        format!("tumble {}", display_ns(size_ns))
    } else {
        format!("hop {} every {}", display_ns(size_ns), display_ns(slide_ns))
    }
}
