//! Which versions a query reads of views whose parts are at gateways: one vector for all of its views, with a version of each
//! gateway that is complete there. Gateways do not wait for each other, so there is no order between their cycles.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use tidemill_engine::Cause;
use tidemill_store::remote::{Endpoint, Moment, RemoteAnswer, RemoteVersion};
use tidemill_store::{Pause, SelectedRows, Selection, Work};

use crate::relations::gateway_rows::{GatewayRows, PartVersions};

/// What a gateway has answered for some views: for each the number of the view and of the part, and the version.
type Taken = (usize, usize, Result<RemoteVersion, Cause>);

/// For each view the versions of its parts at one moment. Each gateway is asked once for all views, so that their parts there are
/// of one cycle. If a gateway is away, the views that have a part there cannot be read.
pub(crate) fn part_versions(
    views: &[&GatewayRows],
    moment: Moment,
    pause: &mut Pause<'_>,
) -> Vec<PartVersions> {
    let mut endpoints: Vec<&Arc<Endpoint>> = Vec::new();
    for endpoint in views.iter().flat_map(|view| &view.gateways) {
        if !endpoints.iter().any(|known| Arc::ptr_eq(known, endpoint)) {
            endpoints.push(endpoint);
        }
    }
    let mut taken: Vec<Taken> = Vec::new();
    for endpoint in endpoints {
        taken.extend(taken_of(endpoint, views, moment, pause));
    }
    let of_view = |number: usize| {
        let mut parts: Vec<&Taken> = taken.iter().filter(|(view, ..)| *view == number).collect();
        parts.sort_by_key(|(_, part, _)| *part);
        parts.into_iter().map(|(.., version)| version.clone()).collect::<Result<Arc<[_]>, Cause>>()
    };
    (0..views.len()).map(of_view).collect()
}

fn taken_of(
    endpoint: &Arc<Endpoint>,
    views: &[&GatewayRows],
    moment: Moment,
    pause: &mut Pause<'_>,
) -> Vec<Taken> {
    let part_of = |(number, view): (usize, &&GatewayRows)| {
        let part = view.gateways.iter().position(|gateway| Arc::ptr_eq(gateway, endpoint))?;
        Some((number, part))
    };
    let parts: Vec<(usize, usize)> = views.iter().enumerate().filter_map(part_of).collect();
    let names: Vec<&str> = parts.iter().map(|(number, _)| views[*number].name.as_str()).collect();
    let versions = endpoint.pin(&names, moment, pause);
    let version = |at: usize| match &versions {
        Ok(versions) => versions.get(at).cloned().unwrap_or_else(|| {
            Err(Cause::bug(format!("{} has answered for too few views", endpoint.name())))
        }),
        Err(cause) => Err(cause.clone()),
    };
    parts.iter().enumerate().map(|(at, (view, part))| (*view, *part, version(at))).collect()
}

impl GatewayRows {
    /// The versions that were taken for a query or a transaction, or the newest.
    pub(crate) fn parts(&self, pause: &mut Pause<'_>) -> PartVersions {
        match &self.versions {
            Some(versions) => versions.clone(),
            None => part_versions(&[self], Moment::Newest, pause).remove(0),
        }
    }

    /// The rows of all parts that meet these conditions: one gateway after the other, in the order of the view.
    pub(crate) fn select(
        &self,
        parts: &[RemoteVersion],
        selection: &Selection,
        pause: &mut Pause<'_>,
    ) -> Result<SelectedRows, Cause> {
        // All search at the same time.
        let asked = parts.iter().map(|part| part.select(selection)).collect::<Result<Vec<_>, _>>()?;
        self.together(answered(asked, pause)?, selection)
    }

    /// Of each part the rows that are nearest to a point: those of all parts together are among them.
    pub(crate) fn nearest(
        &self,
        parts: &[RemoteVersion],
        (to, rows_max): ((f64, f64), usize),
        selection: &Selection,
        pause: &mut Pause<'_>,
    ) -> Result<SelectedRows, Cause> {
        let asked = parts.iter().map(|part| part.nearest(to, rows_max, selection));
        let asked = asked.collect::<Result<Vec<_>, _>>()?;
        self.together(answered(asked, pause)?, selection)
    }

    /// The rows of several parts, with the columns of the view.
    fn together(&self, found: Vec<SelectedRows>, selection: &Selection) -> Result<SelectedRows, Cause> {
        let differs = |error: datafusion::arrow::error::ArrowError| {
            Cause::bug(format!("a gateway has other columns than its view: {error}")).with_source(error)
        };
        let schema = match &selection.columns {
            Some(columns) => Arc::new(self.config.schema.project(columns).map_err(differs)?),
            None => Arc::clone(&self.config.schema),
        };
        let (mut batches, mut work) = (Vec::new(), Work::default());
        for part in found {
            work += part.work;
            for batch in part.batches {
                // A part may know of a column that it is never NULL, where the view does not.
                let options = datafusion::arrow::array::RecordBatchOptions::new()
                    .with_row_count(Some(batch.num_rows()));
                let columns = batch.columns().to_vec();
                let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
                batches.push(rows.map_err(differs)?);
            }
        }
        Ok(SelectedRows { batches, work })
    }

    /// All rows as they are now, for a query that reads the view as a table at its start.
    pub(crate) fn read(&self) -> Result<RecordBatch, Cause> {
        let pause: &mut Pause<'_> = &mut |_| Ok(());
        let parts = self.parts(pause)?;
        let rows = self.select(&parts, &Selection::default(), pause)?;
        let joined = concat_batches(&self.config.schema, &rows.batches);
        joined.map_err(|error| {
            Cause::resource(format!("the rows are too many for one batch: {error}")).with_source(error)
        })
    }
}

/// The answers of all parts. What earlier ones hold counts for later ones.
fn answered(asked: Vec<RemoteAnswer<'_>>, pause: &mut Pause<'_>) -> Result<Vec<SelectedRows>, Cause> {
    let mut held = 0;
    let mut rows_of = |answer: RemoteAnswer<'_>| {
        let rows = answer.rows(&mut |bytes| pause(held + bytes))?;
        held += rows.batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        Ok(rows)
    };
    asked.into_iter().map(&mut rows_of).collect()
}
