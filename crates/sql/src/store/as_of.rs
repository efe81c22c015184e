//! Which versions a query reads: one of each store, however often it names it, and all at one cycle.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{LogicalPlan, TableScan, TableSource};
use tidemill_engine::{Cause, Fault};
use tidemill_store::remote::{Moment, RemoteVersion};
use tidemill_store::{StoreConfig, StoreReader, Version};

use super::at_gateways::part_versions;
use super::one_cycle::versions_at_one_cycle;
use crate::refusal::{refuse, refuse_for};
use crate::relations::gateway_rows::{GatewayRows, PartVersions};
use crate::relations::source_definition::{ScannedSource, SourceDefinition, scanned};
use crate::relations::stored_rows::StoredRows;
use crate::statement::AsOf;
use crate::text::Problem;
use tidemill_trees::nodes::PlanTree;

/// The plan over the newest cycle that all views have which it names.
pub(crate) fn same_versions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let stores = stores_of(&plan)?;
    let (plan, _) = with_part_versions(at_one_cycle(plan, &stores)?, |views| {
        part_versions(views, Moment::Newest, &mut |_| Ok(())).into_iter().map(Ok).collect()
    })?;
    Ok(plan)
}

/// As `same_versions`, of a plan that was made before. What the views of these names have now, here or at gateways,
/// may be the rows of a transaction.
pub(crate) fn same_versions_of<'a>(
    plan: LogicalPlan,
    now: impl Fn(&str) -> Option<&'a StoredRows>,
    parts_now: impl Fn(&str) -> Option<&'a GatewayRows>,
) -> Result<LogicalPlan> {
    let mut stores = stores_of(&plan)?;
    for stored in &mut stores {
        if let Some(now) = now(stored.name()).filter(|now| now.reader().is_of(stored.reader())) {
            *stored = now.clone();
        }
    }
    let (plan, _) = with_part_versions(at_one_cycle(plan, &stores)?, |views| {
        let taken = |view: &&GatewayRows| parts_now(&view.name)?.versions.clone();
        let open: Vec<&GatewayRows> = views.iter().copied().filter(|view| taken(view).is_none()).collect();
        let mut newest = part_versions(&open, Moment::Newest, &mut |_| Ok(())).into_iter();
        let mut version = |view: &&GatewayRows| {
            let missing = || Err(Cause::bug("a view has no version"));
            taken(view).or_else(|| newest.next()).unwrap_or_else(missing)
        };
        Ok(views.iter().map(&mut version).collect())
    })?;
    Ok(plan)
}

fn at_one_cycle(plan: LogicalPlan, stores: &[StoredRows]) -> Result<LogicalPlan> {
    if stores.is_empty() {
        return Ok(plan);
    }
    let versions = versions_at_one_cycle(stores);
    let version = |stored: &StoredRows| {
        let known = stores.iter().zip(&versions).find(|(known, _)| known.reader().is_of(stored.reader()));
        let version = known.map_or_else(|| stored.version(), |(_, version)| version.clone());
        version.map_err(failed)
    };
    at_versions(plan, version).map(|(plan, _)| plan)
}

/// Looks at each source that a plan scans, those of subqueries included.
fn look_at_sources(plan: &LogicalPlan, mut look: impl FnMut(&SourceDefinition)) -> Result<()> {
    plan.look_through_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scanned(scan.source.as_ref())
        {
            look(&source.definition);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn failed(cause: Cause) -> DataFusionError {
    DataFusionError::External(cause.into())
}

/// The stores that a plan names, each once.
fn stores_of(plan: &LogicalPlan) -> Result<Vec<StoredRows>> {
    let mut stores: Vec<StoredRows> = Vec::new();
    look_at_sources(plan, |source| {
        if let Some(stored) = &source.stored
            && !stores.iter().any(|known| known.reader().is_of(stored.reader()))
        {
            stores.push(stored.clone());
        }
    })?;
    Ok(stores)
}

/// The stores of these views at one cycle, for all queries of a transaction.
pub(crate) fn pinned(stores: &[StoredRows]) -> Vec<StoredRows> {
    let versions = versions_at_one_cycle(stores);
    stores.iter().zip(versions).map(|(stored, version)| stored.at(version)).collect()
}

/// The plan over earlier versions. The plan as written says what is read, even if no row can meet the conditions.
pub(crate) fn earlier_rows(written: LogicalPlan, plan: LogicalPlan, as_of: &AsOf) -> Result<LogicalPlan> {
    let of_parts = |views: &[&GatewayRows]| {
        views.iter().map(|view| earlier_parts(view, as_of)).collect::<Result<Vec<_>>>()
    };
    let earlier = |plan| {
        let (plan, stores) = at_versions(plan, |stored| version_of(stored, as_of))?;
        let (plan, views) = with_part_versions(plan, of_parts)?;
        Ok::<_, DataFusionError>((plan, stores + views))
    };
    let (_, stores) = earlier(written)?;
    let (plan, _) = earlier(plan)?;
    match stores {
        0 => Err(refuse(
            "AS OF in a query that reads no materialized view that runs",
            "remove AS OF, or start the view and name it in FROM",
        )),
        _ => Ok(plan),
    }
}

fn version_of(stored: &StoredRows, as_of: &AsOf) -> Result<Version> {
    let reader = stored.reader();
    let moment = moment_of(reader.config(), as_of)?;
    version_at(stored, moment).map_err(|cause| {
        let is_past = match moment {
            Moment::Cycle(cycle) => reader.cycles().is_some_and(|(oldest, _)| cycle < oldest),
            Moment::Time(_) => true,
            Moment::Newest => false,
        };
        not_readable(cause, reader, is_past)
    })
}

/// What a statement means for a view: its times are in units of the view's column.
fn moment_of(config: &StoreConfig, as_of: &AsOf) -> Result<Moment> {
    match as_of {
        AsOf::Cycle(cycle) => Ok(Moment::Cycle(*cycle)),
        AsOf::Time(text) => {
            let Some(column) = config.time else {
                return Err(refuse(
                    "AS OF a time in a view whose rows have no event time",
                    "write AS OF CYCLE n, or name the column with the time: WITH (time = 'column')",
                ));
            };
            let data_type = config.schema.field(column).data_type();
            let time = ScalarValue::from(text.as_str()).cast_to(data_type)?.cast_to(&DataType::Int64)?;
            match time {
                ScalarValue::Int64(Some(time)) => Ok(Moment::Time(time)),
                _ => Err(refuse(
                    format!("'{text}' is not a time"),
                    "write AS OF TIMESTAMP '2026-01-31 12:00:00'",
                )),
            }
        }
    }
}

fn version_at(stored: &StoredRows, moment: Moment) -> Result<Version, Cause> {
    let reader = stored.reader();
    match moment {
        Moment::Newest => stored.version(),
        Moment::Cycle(cycle) if has_nothing_until(stored, cycle) => {
            reader.before_cycle(cycle.saturating_add(1))
        }
        Moment::Cycle(cycle) => reader.as_of_cycle(cycle),
        Moment::Time(time) => reader.as_of_time(time).map_err(|cause| readable(cause, reader)),
    }
}

/// Versions of these views at one moment, for readers in other processes.
pub(crate) fn versions_at(stores: &[StoredRows], moment: Moment) -> Vec<Result<Version, Cause>> {
    match moment {
        Moment::Newest => versions_at_one_cycle(stores),
        earlier => stores.iter().map(|stored| version_at(stored, earlier)).collect(),
    }
}

/// The parts of a view at gateways as of an earlier moment.
fn earlier_parts(view: &GatewayRows, as_of: &AsOf) -> Result<PartVersions> {
    if let (AsOf::Cycle(_), [_, _, ..]) = (as_of, view.gateways.as_slice()) {
        return Err(refuse(
            format!(
                "AS OF CYCLE in view '{}', which has parts at {} gateways that count cycles of their own",
                view.name,
                view.gateways.len()
            ),
            "write AS OF TIMESTAMP '2026-01-31 12:00:00'",
        ));
    }
    let moment = moment_of(&view.config, as_of)?;
    let versions = part_versions(&[view], moment, &mut |_| Ok(())).remove(0);
    match versions {
        Err(cause) if cause.fault == Fault::User => Err(not_readable_there(&cause, view, moment)),
        versions => Ok(versions),
    }
}

/// As `not_readable`, of a view at gateways: which cycles they have is in the reason.
fn not_readable_there(cause: &Cause, view: &GatewayRows, moment: Moment) -> DataFusionError {
    let newest = part_versions(&[view], Moment::Newest, &mut |_| Ok(())).remove(0);
    let newest = newest.ok().and_then(|parts| parts.iter().map(RemoteVersion::cycle).max()).flatten();
    let problem = match (moment, newest) {
        (_, None) => Problem::NotYet,
        (Moment::Cycle(cycle), Some(newest)) if cycle > newest => Problem::NotYet,
        _ => Problem::PastGone,
    };
    let way_out = match problem {
        Problem::PastGone => "a view keeps more cycles WITH (retain_versions = ...)",
        _ => "ask again when the gateway has that cycle",
    };
    refuse_for(problem, cause.message.to_string(), way_out)
}

/// The plan with each view at gateways as of one version of each part, and the number of such views. `versions` is asked once for
/// all of them; those that a transaction reads have theirs already.
fn with_part_versions(
    plan: LogicalPlan,
    versions: impl FnOnce(&[&GatewayRows]) -> Result<Vec<PartVersions>>,
) -> Result<(LogicalPlan, usize)> {
    let mut views: Vec<GatewayRows> = Vec::new();
    look_at_sources(&plan, |source| {
        if let Some(rows) = &source.at_gateways
            && !views.iter().any(|known| known.name == rows.name)
        {
            views.push(rows.clone());
        }
    })?;
    let open: Vec<&GatewayRows> = views.iter().filter(|view| view.versions.is_none()).collect();
    if open.is_empty() {
        return Ok((plan, views.len()));
    }
    let versions = versions(&open)?;
    let chosen: Vec<GatewayRows> =
        open.iter().zip(versions).map(|(view, versions)| view.at(versions)).collect();
    let plan = plan.rewrite_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(source) = scanned(scan.source.as_ref()) else { return Ok(Transformed::no(node)) };
        let name = source.definition.at_gateways.as_ref().map(|rows| rows.name.as_str());
        let Some(rows) = chosen.iter().find(|rows| name == Some(&rows.name)) else {
            return Ok(Transformed::no(node));
        };
        let at_gateways = Some(rows.clone());
        Ok(Transformed::yes(scan_of(scan, source, |definition| SourceDefinition {
            at_gateways,
            ..definition
        })))
    });
    Ok((plan.data()?, views.len()))
}

/// The scan of a source whose definition is changed.
fn scan_of(
    scan: &TableScan,
    source: &ScannedSource,
    change: impl FnOnce(SourceDefinition) -> SourceDefinition,
) -> LogicalPlan {
    let definition = Arc::new(change(source.definition.as_ref().clone()));
    let mut scan = scan.clone();
    scan.source = Arc::new(ScannedSource { definition, late: source.late }) as Arc<dyn TableSource>;
    LogicalPlan::TableScan(scan)
}

/// Whether this cycle of the database comes after the last one with rows of a view's sources, and no other is to come
/// before it: then the view is the same as after that last one.
fn has_nothing_until(stored: &StoredRows, cycle: u64) -> bool {
    let newest = stored.reader().cycles().map(|(_, newest)| newest);
    // Of a view whose query has ended, it is not known at which cycle.
    let reached = stored.clock().reached(stored.reader());
    newest.is_some_and(|newest| cycle > newest) && cycle < reached && reached < u64::MAX
}

/// Why the rows of a cycle or time cannot be read, and which can.
fn not_readable(cause: Cause, reader: &StoreReader, is_past: bool) -> DataFusionError {
    let reason = cause.message.to_string();
    let way_out = match reader.cycles() {
        Some((oldest, _)) if is_past => {
            format!(
                "AS OF CYCLE {oldest} is the oldest; a view keeps more of them WITH (retain_versions = ...)"
            )
        }
        Some((_, newest)) => format!("AS OF CYCLE {newest} is the newest"),
        None => "ask again when the view has rows".to_owned(),
    };
    let problem = if is_past && reader.cycles().is_some() { Problem::PastGone } else { Problem::NotYet };
    refuse_for(problem, reason, &way_out)
}

/// The store says times in its own units.
fn readable(cause: Cause, reader: &StoreReader) -> Cause {
    let earliest = reader.cycles().map(|(oldest, newest)| {
        format!(
            "the rows of that time are no longer kept, or have not arrived yet; the cycles {oldest} to {newest} can be \
             read: AS OF CYCLE {oldest}"
        )
    });
    earliest.map_or(cause, Cause::user)
}

/// The plan with each store at one version, and the number of stores.
fn at_versions(
    plan: LogicalPlan,
    version: impl Fn(&StoredRows) -> Result<Version>,
) -> Result<(LogicalPlan, usize)> {
    let mut chosen: Vec<(StoreReader, Version)> = Vec::new();
    let plan = plan.rewrite_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(source) = scanned(scan.source.as_ref()) else { return Ok(Transformed::no(node)) };
        let Some(stored) = &source.definition.stored else { return Ok(Transformed::no(node)) };
        let known = chosen.iter().find(|(reader, _)| reader.is_of(stored.reader()));
        let version = match known {
            Some((_, version)) => version.clone(),
            None => {
                let version = version(stored)?;
                chosen.push((stored.reader().clone(), version.clone()));
                version
            }
        };
        let stored = Some(stored.at(Ok(version)));
        Ok(Transformed::yes(scan_of(scan, source, |definition| SourceDefinition { stored, ..definition })))
    });
    Ok((plan.data()?, chosen.len()))
}
