//! A transform of a plan: a stream made from another one, row by row, before it is split.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use tidemill_core::Transform;

use crate::stream::StreamRef;

/// Makes the instance of a worker.
pub type TransformFactory = dyn Fn() -> Box<dyn Transform> + Send + Sync;

/// A stateless step between a stream and its readers. It runs on the worker that has the rows.
#[derive(Clone)]
pub struct TransformPlan {
    /// What it does, for people.
    pub name: String,
    /// What it reads.
    pub input: StreamRef,
    /// The schema of its rows.
    pub output: SchemaRef,
    /// Makes the instances.
    pub factory: Arc<TransformFactory>,
}

impl TransformPlan {
    /// A transform of `input`.
    pub fn new(
        name: impl Into<String>,
        input: StreamRef,
        output: SchemaRef,
        factory: impl Fn() -> Box<dyn Transform> + Send + Sync + 'static,
    ) -> Self {
        TransformPlan { name: name.into(), input, output, factory: Arc::new(factory) }
    }
}
