//! A gateway: what its process does.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_sql::{Definition, GatewayPlace, Planner, Settings, parse};
use tidemill_store::Version;
use tidemill_store::remote::{FollowPosition, Moment, StoreDirectory, StoreServer, ViewFollower};

use super::at_work::at_work;
use super::followed_view::FollowedView;
use super::gateway_log::GatewayLog;
use super::own_tables::own_tables;
use crate::catalog_record::{CatalogRecord, StartedQuery};
use crate::gateway_processes::{Answer, JOURNAL, Order, SOCKET};
use crate::query::Identity;
use crate::query_folder::folder_name;
use crate::query_state::QueryState;
use crate::{Runtime, Session};

/// How long a gateway that is to end waits before it looks again.
const LOOK: Duration = Duration::from_secs(1);

/// Runs a gateway of this name in this process until its server tells it to end, or is gone. Standard input is the connection to
/// the server, which has started this process.
///
/// # Errors
/// If its folder or its journal cannot be used, or the server says what it cannot understand.
pub fn serve_gateway(mut planner: Planner, name: &str, folder: &Path) -> Result<(), Cause> {
    let server = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let Some(Order::Apply(records)) = Order::receive(&server)? else {
        return Err(Cause::bug("a gateway is first told what to run"));
    };
    let journal = folder.join(JOURNAL);
    let settings = planner.settings_mut();
    settings.gateways = GatewayPlace::Here(name.to_owned());
    settings.journal = Some(journal.clone());
    let opened = at_work(&server, || {
        let runtime = open(planner, records, &journal)?;
        let readers = StoreServer::start(&folder.join(SOCKET), Arc::new(Stores::of(&runtime)))?;
        Ok::<_, Cause>((runtime, readers))
    });
    let (runtime, readers) = match opened {
        Ok(opened) => opened,
        Err(cause) => {
            Answer::Failed(cause.clone()).send(&server)?;
            return Err(cause);
        }
    };
    Answer::Done.send(&server)?;
    while let Some(order) = Order::receive(&server)? {
        match order {
            Order::Apply(records) => apply_all(&runtime, records, &server)?,
            Order::Report => Answer::Tables(own_tables(&runtime, name)).send(&server)?,
            Order::Close => {
                drop(readers);
                while !runtime.close(LOOK).is_empty() {}
                return Ok(Answer::Done.send(&server)?);
            }
        }
    }
    Ok(())
}

/// The runtime with the server's definitions. Views that have run before continue where they were; others begin.
fn open(planner: Planner, records: Vec<CatalogRecord>, journal: &Path) -> Result<Runtime, Cause> {
    let has_run = |record: &CatalogRecord| match record {
        CatalogRecord::Started(query) => journal.join(folder_name(&query.name)).is_dir(),
        _ => true,
    };
    let (known, new): (Vec<_>, Vec<_>) = records.into_iter().partition(has_run);
    let runtime = Runtime::open_journaled(planner, Box::new(GatewayLog(known)), journal)?;
    for record in new {
        let CatalogRecord::Started(query) = record else { continue };
        if let Err(cause) = start(&runtime, &query) {
            let clock_name = query.name.clone();
            runtime.note_failed(Identity { kept: query, clock_name, computation: String::new() }, cause);
        }
    }
    Ok(runtime)
}

/// Applies records and answers. A definition that fails here ends the process: it begins again with all of them, and without that one.
fn apply_all(runtime: &Runtime, records: Vec<CatalogRecord>, server: &UnixStream) -> Result<(), Cause> {
    let failed = at_work(server, || {
        records.into_iter().find_map(|record| {
            let defines = matches!(record, CatalogRecord::Definition(_));
            apply(runtime, record).err().map(|cause| (defines, cause))
        })
    });
    match failed {
        None => Ok(Answer::Done.send(server)?),
        Some((defines, cause)) => {
            Answer::Failed(cause.clone()).send(server)?;
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
            Err(_) => start(runtime, &query),
        },
        other => Err(Cause::bug(format!("a gateway cannot apply {other:?}"))),
    }
}

fn define(runtime: &Runtime, definition: &Arc<Definition>) -> Result<(), Cause> {
    let version = definition.version;
    let due = runtime.defined_catalog().version() + 1;
    if version != due {
        return Err(Cause::bug(format!("definition {version} comes where definition {due} is due")));
    }
    let statements = parse(&definition.statement, &format!("definition {version}"))?;
    let mut session = Session::new(runtime);
    session.settings_mut().idle_after = definition.idle_after;
    match statements.iter().find(|statement| statement.kind.is_definition()) {
        Some(statement) => Ok(session.execute(statement).map(|_| ())?),
        None => Err(Cause::bug(format!("definition {version} defines nothing"))),
    }
}

fn start(runtime: &Runtime, query: &StartedQuery) -> Result<(), Cause> {
    let mut session = Session::new(runtime);
    *session.settings_mut() = Settings::decode(&query.settings, runtime.defaults())?;
    session.set_strict(query.is_strict);
    let pipeline = session.pipeline_by_itself(&query.name)?;
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
}

impl StoreDirectory for Stores {
    fn versions(&self, views: &[String], moment: Moment) -> Vec<Result<Version, Cause>> {
        self.runtime.catalog().versions(views, moment)
    }

    fn follow(&self, view: &str, after: Option<FollowPosition>) -> Result<Box<dyn ViewFollower>, Cause> {
        Ok(Box::new(FollowedView::new(&self.runtime, view, after, self.history)?))
    }
}
