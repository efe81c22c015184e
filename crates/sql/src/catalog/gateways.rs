//! Views that have parts at gateways.

use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_store::Version;
use tidemill_store::remote::{Endpoint, Moment};

use super::Catalog;
use crate::relations::gateway_rows::GatewayRows;
use crate::relations::named_relations::{Relation, ViewDefinition};
use crate::relations::projected::Projected;
use crate::relations::single_batch_source::SingleBatchSource;
use crate::relations::source_definition::SourceDefinition;
use crate::store::{part_versions, versions_at};

impl Catalog {
    /// The gateways that have parts of this view or run this sink; none if there is no such materialized view or sink, or it is
    /// computed in the process itself.
    pub fn gateways_of(&self, output: &str) -> &[String] {
        match self.relations.get(output) {
            Some(Relation::View(view)) => view.gateways(),
            Some(_) => &[],
            None => self.sinks.get(output).map_or(&[], |sink| &sink.gateways),
        }
    }

    /// The materialized views that have parts at gateways.
    pub fn views_at_gateways(&self) -> Vec<String> {
        let at_gateways = |(name, relation): (&str, &Relation)| match relation {
            Relation::View(view) if !view.gateways().is_empty() => Some(name.to_owned()),
            _ => None,
        };
        self.relations.iter().filter_map(at_gateways).collect()
    }

    /// From now on, queries that name this view read its parts at these gateways, which are in the order of
    /// [`gateways_of`](Catalog::gateways_of).
    pub fn attach_gateways(&mut self, name: &str, gateways: Vec<Arc<Endpoint>>) {
        let Some(Relation::View(view)) = self.relations.get(name) else { return };
        let places = view.materialized.as_ref().and_then(|materialized| materialized.gateways.as_ref());
        let Some(config) = places.map(|places| Arc::clone(&places.config)) else { return };
        let divided_by = view.divided_by().map(|divided| divided.expression.clone());
        let rows = GatewayRows { name: name.to_owned(), config, divided_by, gateways, versions: None };
        let rows = definition(rows).with_json_of(view.plan.schema().as_arrow());
        let attached = ViewDefinition { rows: Some(Arc::new(rows)), ..view.as_ref().clone() };
        self.relations.add(name, Relation::View(Arc::new(attached)));
        self.has_attached_views = true;
    }

    /// The parts of a view that were [attached](Catalog::attach_gateways); `None`: it has none.
    ///
    /// ```
    /// assert!(tidemill_sql::Planner::new().catalog().gateway_rows("recent").is_none());
    /// ```
    pub fn gateway_rows(&self, view: &str) -> Option<&GatewayRows> {
        match self.relations.get(view) {
            Some(Relation::View(view)) => view.rows.as_ref()?.at_gateways.as_ref(),
            _ => None,
        }
    }

    /// Versions of these views at one moment, for readers in other processes: the rows that this process has of them.
    pub fn versions(&self, views: &[String], moment: Moment) -> Vec<Result<Version, Cause>> {
        let stored = |view: &String| match self.relations.get(view) {
            Some(Relation::View(view)) => view.rows.as_ref()?.stored.clone(),
            _ => None,
        };
        let stores: Vec<_> = views.iter().map(stored).collect();
        let known: Vec<_> = stores.iter().flatten().cloned().collect();
        let mut versions = versions_at(&known, moment).into_iter();
        let version = |(name, stored): (&String, &Option<_>)| match stored {
            Some(_) => versions.next().unwrap_or_else(|| Err(Cause::bug("a view has no version"))),
            None => Err(Cause::operation(format!("view '{name}' does not run here yet; try again"))),
        };
        views.iter().zip(&stores).map(version).collect()
    }

    /// The same version, in which the parts of views at gateways stay as they are now: those of one gateway at one cycle.
    pub(super) fn at_part_versions(&mut self) {
        let views: Vec<(String, Arc<SourceDefinition>, GatewayRows)> = self
            .relations
            .iter()
            .filter_map(|(name, relation)| {
                let Relation::View(view) = relation else { return None };
                let rows = Arc::clone(view.rows.as_ref()?);
                let at_gateways = rows.at_gateways.clone()?;
                Some((name.to_owned(), rows, at_gateways))
            })
            .collect();
        let parts: Vec<&GatewayRows> = views.iter().map(|(.., rows)| rows).collect();
        let versions = part_versions(&parts, Moment::Newest, &mut |_| Ok(()));
        for ((name, rows, parts), versions) in views.iter().zip(versions) {
            let at_gateways = Some(parts.at(versions));
            let rows = Arc::new(SourceDefinition { at_gateways, ..rows.as_ref().clone() });
            if let Some(Relation::View(view)) = self.relations.get(name) {
                let view = ViewDefinition { rows: Some(rows), ..view.as_ref().clone() };
                self.relations.add(name, Relation::View(Arc::new(view)));
            }
        }
    }
}

/// A view at gateways as a table that each query reads again.
fn definition(rows: GatewayRows) -> SourceDefinition {
    let (read, schema) = (rows.clone(), Arc::clone(&rows.config.schema));
    let open = move |columns: Option<&[usize]>| {
        let rows = read
            .read()
            .map_err(|cause| cause.map_message(|message| format!("view '{}': {message}", read.name)))?;
        Projected::open(SingleBatchSource::new(rows), columns)
    };
    let definition = SourceDefinition::new(&rows.name, schema, Arc::new(open));
    let at_gateways = Some(rows);
    SourceDefinition { is_table: true, is_finite: true, is_repeatable: true, at_gateways, ..definition }
}
