//! A gateway: what its process does.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_sql::{Definition, GatewayPlace, Planner, Settings};
use tidemill_store::Version;
use tidemill_store::remote::{FollowPosition, Moment, StoreDirectory, StoreServer, ViewFollower};

use super::followed_view::FollowedView;
use super::gateway_log::GatewayLog;
use super::replaced_part::{keeps_state, next_statement, replace};
use super::server_link::ServerLink;
use crate::catalog::record::{CatalogRecord, StartedQuery};
use crate::gateways::{Answer, JOURNAL, Order, SOCKET};
use crate::runtime::own_tables::own_tables;
use crate::runtime::query::Identity;
use crate::runtime::query_folder::{folder_name, is_query_folder};
use crate::runtime::query_state::QueryState;
use crate::{Runtime, Session};

/// How long a gateway that is to end waits before it looks again.
const LOOK: Duration = Duration::from_secs(1);

/// Runs a gateway of this name in this process until its server tells it to end, or is gone. Standard input is the connection to
/// the server, which has started this process. If the server is gone after it was asked whether a replacement counts, `end` is called:
/// it ends this process at once, so both parts stay.
///
/// # Errors
/// If its folder or its journal cannot be used, or the server says what it cannot understand.
pub fn serve_gateway(mut planner: Planner, name: &str, folder: &Path, end: fn()) -> Result<(), Cause> {
    let server = Arc::new(ServerLink::new(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?)));
    let Some(Order::Apply(records)) = server.receive()? else {
        return Err(Cause::bug("a gateway is first told what to run"));
    };
    let journal = folder.join(JOURNAL);
    let settings = planner.settings_mut();
    settings.gateways = GatewayPlace::Here(name.to_owned());
    settings.journal = Some(journal.clone());
    let opened = server.at_work(|| {
        let runtime = open(planner, records, &journal, &server)?;
        let readers = serve_readers(&runtime, &folder.join(SOCKET))?;
        Ok::<_, Cause>((runtime, readers))
    });
    let (runtime, readers) = match opened {
        Ok(opened) => opened,
        Err(cause) => {
            server.send(&Answer::Failed(cause.clone()))?;
            return Err(cause);
        }
    };
    server.send(&Answer::Done)?;
    while let Some(order) = server.receive()? {
        match order {
            Order::Apply(records) => apply_all(&runtime, records, &server)?,
            Order::Report => server.send(&Answer::Tables(own_tables(&runtime, name)))?,
            Order::Stop(view) => {
                answer(&server, || Session::new(&runtime).lifecycle().stop(&view).map(Answer::Said))?;
            }
            Order::Start(view) => {
                answer(&server, || Ok(Session::new(&runtime).lifecycle().start(&view).map(Answer::Said)?))?;
            }
            Order::Keeps(definition) => {
                answer(&server, || keeps_state(&runtime, &definition).map(Answer::Keeps))?;
            }
            Order::Replace(replacement) => replace(&runtime, &replacement, &server, end)?,
            Order::Commit | Order::Abort => return Err(Cause::bug("there is nothing to decide")),
            Order::Close => {
                drop(readers);
                while !runtime.close(LOOK).is_empty() {}
                return Ok(server.send(&Answer::Done)?);
            }
        }
    }
    Ok(())
}

/// Threads have the priority of the thread that starts them, so those of readers are started by one.
fn serve_readers(runtime: &Runtime, socket: &Path) -> Result<StoreServer, Cause> {
    let start = || {
        runtime.be_reader();
        StoreServer::start(socket, Arc::new(Stores::of(runtime)))
    };
    let started = thread::scope(|scope| scope.spawn(start).join());
    started.map_err(|_| Cause::bug("the thread that starts the readers of a gateway has panicked"))?
}

/// Carries out an order that changes nothing if it fails.
fn answer(server: &ServerLink, carry_out: impl FnOnce() -> Result<Answer, Cause>) -> Result<(), Cause> {
    let answer = server.at_work(carry_out).unwrap_or_else(Answer::Failed);
    Ok(server.send(&answer)?)
}

/// The runtime with the server's definitions. Views that have run before continue where they were; others begin.
fn open(
    planner: Planner,
    records: Vec<CatalogRecord>,
    journal: &Path,
    server: &Arc<ServerLink>,
) -> Result<Runtime, Cause> {
    let defaults = planner.settings().clone();
    let (known, new) = divided(records, journal, &defaults)?;
    let log = GatewayLog { records: known, server: Arc::clone(server), defaults };
    let runtime = Runtime::open_journaled(planner, Box::new(log), journal)?;
    for query in new {
        if let Err(cause) = start(&runtime, &query) {
            let clock_name = query.name.clone();
            runtime.note_failed(Identity { kept: query, clock_name, computation: String::new() }, cause);
        }
    }
    Ok(runtime)
}

/// The records of what has run here before, or is stopped; and the queries that begin.
fn divided(
    records: Vec<CatalogRecord>,
    journal: &Path,
    defaults: &Settings,
) -> Result<(Vec<CatalogRecord>, Vec<StartedQuery>), Cause> {
    let stopped = |record: &CatalogRecord| match record {
        CatalogRecord::Stopped(name) => Some(name.clone()),
        _ => None,
    };
    let stopped: Vec<String> = records.iter().filter_map(stopped).collect();
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            CatalogRecord::Started(query) => {
                let (query, folder) = at_home(query, journal, defaults)?;
                if folder.is_dir() || stopped.contains(&query.name) {
                    known.push(CatalogRecord::Started(query))
                } else {
                    new.push(query)
                }
            }
            other => known.push(other),
        }
    }
    Ok((known, new))
}

/// A query with its folder, which has the name that the server says, in the journal of this gateway.
fn at_home(
    query: StartedQuery,
    journal: &Path,
    defaults: &Settings,
) -> Result<(StartedQuery, PathBuf), Cause> {
    let settings = Settings::decode(&query.settings, defaults)?;
    let kept = settings.journal.as_deref().filter(|folder| is_query_folder(folder)).and_then(Path::file_name);
    let folder = kept.map_or_else(|| journal.join(folder_name(&query.name)), |name| journal.join(name));
    let settings = Settings { journal: Some(folder.clone()), ..settings }.encode_beside(defaults);
    Ok((StartedQuery { settings, ..query }, folder))
}

/// Applies records and answers. A definition that fails here ends the process: it begins again with all of them, and without that one.
fn apply_all(runtime: &Runtime, records: Vec<CatalogRecord>, server: &ServerLink) -> Result<(), Cause> {
    let failed = server.at_work(|| {
        records.into_iter().find_map(|record| {
            let defines = matches!(record, CatalogRecord::Definition(_));
            apply(runtime, record).err().map(|cause| (defines, cause))
        })
    });
    match failed {
        None => Ok(server.send(&Answer::Done)?),
        Some((defines, cause)) => {
            server.send(&Answer::Failed(cause.clone()))?;
            if defines { Err(cause) } else { Ok(()) }
        }
    }
}

fn apply(runtime: &Runtime, record: CatalogRecord) -> Result<(), Cause> {
    match record {
        CatalogRecord::Definition(definition) => define(runtime, &definition),
        CatalogRecord::Started(query) => match runtime.state(&query.name) {
            Ok(QueryState::Failed) => runtime.wait(&query.name).map(|_| ()),
            Ok(_) => Ok(()),
            Err(_) => {
                let journal = runtime.defaults().journal.clone().unwrap_or_default();
                start(runtime, &at_home(query, &journal, runtime.defaults())?.0)
            }
        },
        other => Err(Cause::bug(format!("a gateway cannot apply {other:?}"))),
    }
}

fn define(runtime: &Runtime, definition: &Arc<Definition>) -> Result<(), Cause> {
    let statement = next_statement(runtime, definition)?;
    let mut session = Session::new(runtime);
    session.settings_mut().idle_after = definition.idle_after;
    Ok(session.execute(&statement).map(|_| ())?)
}

fn start(runtime: &Runtime, query: &StartedQuery) -> Result<(), Cause> {
    let mut session = Session::new(runtime);
    *session.settings_mut() = Settings::decode(&query.settings, runtime.defaults())?;
    session.set_strict(query.is_strict);
    let pipeline = session.pipeline_of(&[&query.name])?;
    runtime.start(&query.name, pipeline, query.is_strict)
}

/// The stores of the views that run here, for readers in other processes.
struct Stores {
    runtime: Runtime,
    /// Tells the cycles of this process from those of another one.
    history: u64,
}

impl Stores {
    fn of(runtime: &Runtime) -> Stores {
        Stores { runtime: runtime.clone(), history: RandomState::new().build_hasher().finish() }
    }

    /// Why a view cannot be read that is stopped.
    fn named(&self, view: &str, cause: Cause) -> Cause {
        let is_stopped = matches!(self.runtime.state(view), Ok(QueryState::Stopped));
        if is_stopped && self.runtime.running_view(view).is_none() {
            Cause::operation(format!(
                "'{view}' is stopped, and its rows at a gateway, which were in memory only, were lost when that was \
                 started again; START MATERIALIZED VIEW {view} fills it with those that come"
            ))
        } else {
            cause
        }
    }
}

impl StoreDirectory for Stores {
    fn versions(&self, views: &[String], moment: Moment) -> Vec<Result<Version, Cause>> {
        let versions = self.runtime.catalog().versions(views, moment);
        views
            .iter()
            .zip(versions)
            .map(|(view, version)| version.map_err(|cause| self.named(view, cause)))
            .collect()
    }

    fn follow(&self, view: &str, after: Option<FollowPosition>) -> Result<Box<dyn ViewFollower>, Cause> {
        Ok(Box::new(FollowedView::new(&self.runtime, view, after, self.history)?))
    }
}
