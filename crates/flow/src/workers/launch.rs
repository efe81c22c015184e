//! Starts threads: Timely's with the workers, and our own.

use std::any::Any;
use std::net::TcpStream;
use std::sync::Arc;

use parking_lot::Mutex;
use timely::communication::allocator::zero_copy::bytes_slab::BytesRefill;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::communication::{Hooks, WorkerGuards};
use timely::execute::execute_from;
use timely::{CommunicationConfig, WorkerConfig};
use tracing::Span;

use crate::error::Failure;
use tidemill_core::error::Cause;

use crate::error::FlowError;
use crate::panics::guard;
use crate::run_state::RunState;
use crate::transport::bulk_channels::BulkChannels;
use crate::transport::link::{Link, LinkGroup};
use crate::workers::worker::{self, WorkerParts};

/// How many empty pieces of memory, 1 MiB each, an end of a connection keeps for reuse.
const SPARE_SLABS_MAX: usize = 32;

/// The connections of this process to the others.
pub(crate) struct Network {
    /// By process; `None` for this one.
    pub sockets: Vec<Option<TcpStream>>,
    pub bulk: Arc<BulkChannels>,
}

/// Starts this process's workers.
pub(crate) fn launch(
    parts: Vec<WorkerParts>,
    run_state: &Arc<RunState>,
    network: Option<Network>,
) -> Result<WorkerGuards<()>, FlowError> {
    let workers = parts.len();
    let (builders, others, group) = match network {
        None => {
            let (builders, others) =
                CommunicationConfig::Process(workers).try_build().map_err(not_started)?;
            (builders, others, None)
        }
        Some(network) => {
            let (builders, others, group) = connect(network, run_state, workers).map_err(not_started)?;
            (builders, others, Some(group))
        }
    };
    let with_count = |parts| Mutex::new(Some((parts, run_state.threads.begin())));
    let parts: Vec<_> = parts.into_iter().map(with_count).collect();
    let (first, run_state) = (run_state.topology().layout.first_worker(), Arc::clone(run_state));
    // Timely's threads do not know whose they are.
    let span = Span::current();
    let started = execute_from(builders, others, WorkerConfig::default(), move |timely_worker| {
        let _entered = span.enter();
        let taken = parts[timely_worker.index() - first].lock().take();
        if let Some((parts, _working)) = taken {
            let body = || {
                worker::run(timely_worker, parts);
                Ok(())
            };
            if let Err(cause) = guard(body) {
                run_state.fail(Failure::Engine { part: format!("worker {}", timely_worker.index()), cause });
                // Timely would continue with them, and wait forever.
                worker::drop_dataflows(timely_worker);
            }
        }
        if let Some(group) = &group {
            group.worker_ended();
        }
    });
    started.map_err(not_started)
}

type Connected = (Vec<AllocatorBuilder>, Box<dyn Any + Send>, Arc<LinkGroup>);

fn connect(network: Network, run_state: &Arc<RunState>, workers: usize) -> std::io::Result<Connected> {
    let sockets = network.sockets.iter().flatten().map(TcpStream::try_clone).collect::<Result<_, _>>()?;
    let group = LinkGroup::new(run_state, workers, sockets, Arc::clone(&network.bulk));
    let link = |(peer, socket): (usize, Option<TcpStream>)| Some(Link::new(socket?, peer, &group));
    let links = network.sockets.into_iter().enumerate().map(link).collect();
    let (hooks, process) = (hooks(), run_state.topology().layout.process as usize);
    let within = ProcessBuilder::new_typed_vector(workers, hooks.refill.clone(), None);
    let (builders, threads) = initialize_networking_from_sockets(within, links, process, workers, hooks)?;
    let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
    Ok((builders, Box::new(threads), group))
}

/// Timely would otherwise keep its memory for messages for ever.
fn hooks() -> Hooks {
    let hooks = Hooks::default();
    Hooks { refill: BytesRefill { limit: Some(SPARE_SLABS_MAX), ..hooks.refill }, ..hooks }
}

fn not_started(error: impl std::fmt::Display) -> FlowError {
    FlowError::NotStarted(Cause::resource(format!("the worker threads could not be started: {error}")))
}
