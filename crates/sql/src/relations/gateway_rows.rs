//! Rows of a view whose sources enter at gateways: processes of their own, each of which has a part of the view.

use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::logical_expr::Expr;
use tidemill_engine::Cause;
use tidemill_store::StoreConfig;
use tidemill_store::remote::{Endpoint, RemoteVersion};

use super::point_column::point_field;

/// A version of each part of a view, in the order of its gateways; or why one of them cannot be read. Fewer parts are never read.
pub(crate) type PartVersions = Result<Arc<[RemoteVersion]>, Cause>;

/// The parts of a view at gateways; see [`Catalog::gateway_rows`](crate::Catalog::gateway_rows). Queries read them as
/// of their newest versions or of those that were taken.
#[derive(Clone)]
pub struct GatewayRows {
    pub(crate) name: String,
    pub(crate) config: Arc<StoreConfig>,
    /// The expression that divides the rows among fragments.
    pub(crate) divided_by: Option<Expr>,
    pub(crate) gateways: Vec<Arc<Endpoint>>,
    /// What is read; `None`: the newest versions.
    pub(crate) versions: Option<PartVersions>,
}

impl GatewayRows {
    /// The same rows as of these versions.
    pub(crate) fn at(&self, versions: PartVersions) -> GatewayRows {
        GatewayRows { versions: Some(versions), ..self.clone() }
    }

    /// The name of the view.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns of the view.
    pub fn schema(&self) -> &SchemaRef {
        &self.config.schema
    }

    /// The columns of its changes: those of the view, as queries see them.
    pub fn columns_of_changes(&self) -> Vec<FieldRef> {
        let point = point_field(self.schema(), self.config.point).map(Arc::new);
        self.schema().fields().iter().cloned().chain(point).collect()
    }

    /// The gateways that have its parts.
    pub fn gateways(&self) -> &[Arc<Endpoint>] {
        &self.gateways
    }

    /// Whether both are of one view, which was neither dropped nor replaced meanwhile.
    pub fn is_same(&self, other: &GatewayRows) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}
