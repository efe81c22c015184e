//! A plan over tables in memory, computed by DataFusion a batch at a time.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::{SessionConfig, SessionState};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures_util::StreamExt;
use tidemill_engine::MemoryBudget;
use tokio::runtime::Runtime;

use super::memory_pool::QueryPool;
use super::{own_rows, small_batches};
use crate::turns::{Turn, turn_refused};
use tidemill_trees::nodes::Tree;

/// A plan that is being computed, on the thread that asks for the next batch.
pub(super) struct Computing {
    runtime: Runtime,
    stream: SendableRecordBatchStream,
    pool: Arc<QueryPool>,
    /// What the plan says of the rows.
    planned: SchemaRef,
}

impl Computing {
    /// Begins. Nothing is computed yet.
    pub fn begin(plan: LogicalPlan, memory: &MemoryBudget, turn: &mut dyn Turn) -> Result<Computing> {
        let plan = crate::logical::with_distinct_keys(plan)?;
        let plan = crate::translate::distinct_arguments::in_plan(plan)?;
        let plan = crate::logical::for_batch(plan)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let planned = Arc::new(plan.schema().as_arrow().clone());
        let pool = Arc::new(QueryPool::new(memory));
        let preparing = async {
            let state = state(&pool)?;
            let physical = for_reading(state.create_physical_plan(&plan).await?)?;
            execute_stream(physical, state.task_ctx())
        };
        let stream = in_turn(&runtime, preparing, turn).map_err(|error| pool.named(error))?;
        Ok(Computing { runtime, stream, pool, planned })
    }

    /// Computes the next batch; `None` at the end.
    pub fn next(&mut self, turn: &mut dyn Turn) -> Result<Option<RecordBatch>> {
        let next = in_turn(&self.runtime, async { self.stream.next().await.transpose() }, turn);
        next.map_err(|error| self.pool.named(error))
    }

    /// Batches that were computed as one. What is computed may have other fields than the plan says, as for columns without NULL.
    pub fn whole(&self, batches: &[RecordBatch]) -> Result<RecordBatch> {
        let schema = batches.first().map_or(Arc::clone(&self.planned), RecordBatch::schema);
        Ok(concat_batches(&schema, batches)?)
    }
}

/// Computes something on this thread, which pauses for others.
fn in_turn<T>(runtime: &Runtime, work: impl Future<Output = Result<T>>, turn: &mut dyn Turn) -> Result<T> {
    let mut work = std::pin::pin!(work);
    runtime.block_on(poll_fn(|context| match turn.go_on() {
        Ok(()) => work.as_mut().poll(context),
        Err(cause) => Poll::Ready(Err(turn_refused(cause))),
    }))
}

/// The plan, with pauses also behind what makes many rows out of few, and between the pieces of a join that makes few out of many
/// pairs: what reads tables pauses now and then by itself. Sorts get rows of their own.
fn for_reading(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.rewrite_up(|node| {
        if node.children().len() > 1 || node.is::<UnnestExec>() {
            let node = small_batches::of_join(node)?;
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>))
        } else {
            own_rows::of_sort(node).map(Transformed::yes)
        }
    })
    .data()
}

/// One partition, so that rows come in one order in every run. Functions are not looked up by name any more, so none is known.
fn state(pool: &Arc<QueryPool>) -> Result<SessionState> {
    let memory: Arc<dyn MemoryPool> = Arc::clone(pool) as _;
    // Nothing is put on a disk that nobody has named.
    let no_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(memory).with_disk_manager_builder(no_disk);
    let config = SessionConfig::new().with_target_partitions(1).with_create_default_catalog_and_schema(false);
    let builder = SessionStateBuilder::new().with_optimizer_rules(crate::logical::batch_rules());
    Ok(builder.with_config(config).with_runtime_env(runtime.build_arc()?).build())
}
