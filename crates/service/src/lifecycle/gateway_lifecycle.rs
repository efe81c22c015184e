//! `STOP`, `START`, `ALTER` and `CREATE OR REPLACE` of a view with parts at gateways, in the server (decision 0112).

use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_sql::{Alter, Catalog, Definition, Planner, RelationKind, Settings, Statement, StatementKind};

use crate::catalog::record::StartedQuery;
use crate::gateways::{Answer, Exclusive, Gateway, Order, Replacement};
use crate::{Cancellation, Error, Runtime};

/// Starts, stops, replaces and alters views with parts at gateways, for one statement.
pub(crate) struct GatewayLifecycle<'a> {
    pub runtime: &'a Runtime,
    /// The settings of the session.
    pub settings: &'a Settings,
    pub cancellation: &'a Cancellation,
    pub is_strict: bool,
}

impl GatewayLifecycle<'_> {
    fn is_cancelled_from_here(&self) -> impl Fn() -> bool + use<> {
        self.runtime.is_cancelled_from_here(self.cancellation)
    }

    /// Runs a view at its gateways, with the settings of this session; see [`Runtime::is_at_gateways`].
    ///
    /// # Errors
    /// If a gateway does not begin, or cannot run its part: it tries again each time that it is started.
    pub fn start(&self, view: &str) -> Result<(), Cause> {
        self.runtime.run_at_gateways(self.query_for_gateways(view, None), &self.is_cancelled_from_here())
    }

    /// What the log is to say of a view at gateways that is started with the settings of this session. In the journal of each
    /// gateway it has a folder of this name.
    fn query_for_gateways(&self, view: &str, folder: Option<&str>) -> StartedQuery {
        let runtime = self.runtime;
        let mut settings = self.settings.clone();
        let own = runtime.query_folder(view);
        let own = own.map(|own| folder.map_or(own.clone(), |folder| own.with_file_name(folder)));
        settings.journal = own.or(settings.journal);
        StartedQuery {
            name: view.to_owned(),
            outputs: vec![view.to_owned()],
            settings: settings.encode_beside(runtime.defaults()),
            is_strict: self.is_strict,
        }
    }

    /// Stops a view at its gateways. One that is away stops it when it is back.
    pub fn stop(&self, view: &str) -> Result<String, Cause> {
        let runtime = self.runtime;
        let _change = runtime.changes().begin(view, "stopped")?;
        match runtime.query_at_gateways(view) {
            None => return Err(was_not_started(view)),
            // A gateway may not have got the order.
            Some(query) if query.is_stopped => {}
            Some(_) => {
                // From here on it stays stopped, whichever process ends.
                runtime.catalog_store().stopped(view)?;
                runtime.set_stopped_at_gateways(view, true);
            }
        }
        self.at_each_gateway(view, &Order::Stop(view.to_owned()))
    }

    /// Lets a view continue at its gateways. One that is away does so when it is back.
    pub fn start_again(&self, view: &str) -> Result<String, Cause> {
        let runtime = self.runtime;
        let Some(query) = runtime.query_at_gateways(view) else {
            // When it was created, it could not be started.
            self.start(view)?;
            return Ok(format!("'{view}' had not been started, and begins now"));
        };
        let _change = runtime.changes().begin(view, "started")?;
        if query.is_stopped {
            runtime.catalog_store().started(query.query)?;
            runtime.set_stopped_at_gateways(view, false);
        }
        self.at_each_gateway(view, &Order::Start(view.to_owned()))
    }

    /// Gives an order to each gateway of a view; what they say to that.
    ///
    /// # Errors
    /// Why it fails at one of them. The others carry it out.
    fn at_each_gateway(&self, view: &str, order: &Order) -> Result<String, Cause> {
        let gateways = self.runtime.gateways_of_view(view)?;
        let is_cancelled = self.is_cancelled_from_here();
        // All have it before one is waited for.
        let ordered: Vec<_> = gateways.iter().map(|gateway| ordered(gateway, order, &is_cancelled)).collect();
        let (mut said, mut failed) = (Vec::new(), None);
        for (gateway, ordered) in gateways.iter().zip(ordered) {
            match ordered {
                Err(NoOrder::Away(cause)) => {
                    said.push(format!("gateway '{}': {cause}; it does so when it is back", gateway.name()));
                }
                Err(NoOrder::Cancelled(cause)) => failed = failed.or(Some(cause)),
                Ok(mut gateway) => match done(&mut gateway, &is_cancelled) {
                    Ok(text) => said.push(format!("gateway '{}': {text}", gateway.name())),
                    Err(cause) => failed = failed.or(Some(cause)),
                },
            }
        }
        failed.map_or_else(|| Ok(said.join("\n")), Err)
    }

    /// Whether a statement replaces a view with parts at gateways.
    pub fn replaces(&self, statement: &Statement) -> bool {
        match &statement.kind {
            StatementKind::CreateMaterializedView(view) if view.or_replace => {
                self.runtime.is_at_gateways(view.name.as_str())
            }
            _ => false,
        }
    }

    /// Executes a statement that [replaces](GatewayLifecycle::replaces) a view, at all gateways that have parts of it or at none.
    /// Returns what becomes of its rows at each.
    ///
    /// # Errors
    /// The error, with its place; or why a gateway cannot replace its part.
    pub fn replace(&self, statement: &Statement) -> Result<String, Error> {
        let StatementKind::CreateMaterializedView(view) = &statement.kind else {
            return Err(Cause::bug("the statement replaces no view").into());
        };
        let name = view.name.as_str();
        let _change = self.runtime.changes().begin(name, "replaced")?;
        self.replace_parts(statement, name, None)
    }

    /// Alters a view at its gateways.
    pub fn alter(&self, statement: &Statement, alter: &Alter) -> Result<String, Error> {
        let runtime = self.runtime;
        let _change = runtime.changes().begin(alter.name.as_str(), "altered")?;
        let altered = Planner::at(runtime.defined_catalog(), self.settings.clone()).altered(statement)?;
        let replaced = self.replace_parts(&altered, alter.name.as_str(), Some(alter.kind));
        replaced.map_err(|error| match error {
            Error::Statement(error) => alter.error(statement, &error).into(),
            other => other,
        })
    }

    /// Replaces the parts of a view, or alters those of a view or sink of this kind.
    fn replace_parts(
        &self,
        statement: &Statement,
        name: &str,
        altered: Option<RelationKind>,
    ) -> Result<String, Error> {
        let runtime = self.runtime;
        let before = runtime.query_at_gateways(name).ok_or_else(|| was_not_started(name))?;
        let (catalog, definition) = self.next_definition(statement, &runtime.defined_catalog())?;
        if catalog.gateways_of(name) != runtime.defined_catalog().gateways_of(name) {
            let message = format!("the sources of `{name}` would enter at other gateways than before");
            let error = statement.error(statement.span, message);
            return Err(error.with_hint("DROP it, and create it again").into());
        }
        let names = runtime.gateways_of_view(name)?;
        let is_cancelled = self.is_cancelled_from_here();
        let mut parts = Vec::new();
        for gateway in &names {
            let mut part = gateway.exclusive(&is_cancelled)?;
            part.apply(|version| runtime.records_for_gateway(version, []))?;
            parts.push(part);
        }
        let keeps = all_keep(&mut parts, &definition, &is_cancelled)?;
        if let (Some(kind), false) = (altered, keeps) {
            let message = format!("`{name}` cannot keep its state at all of its gateways");
            let error = statement.error(statement.span, message);
            let hint = match kind {
                RelationKind::Sink => "DROP it, and create it again with other options".to_owned(),
                _ => {
                    format!("CREATE OR REPLACE {} {name} begins it again with other options", kind.keyword())
                }
            };
            return Err(error.with_hint(hint).into());
        }
        let replacement = Replacement {
            definition: Arc::clone(&definition),
            query: self.query_for_gateways(name, None),
            fills: !keeps,
            stays_stopped: altered.is_some() && before.is_stopped,
        };
        let counted = prepared(&mut parts, &replacement, &is_cancelled)
            .map_err(Error::from)
            .and_then(|folder| self.count(statement, &replacement, folder));
        // All have the decision before one is waited for: if the server ends now, as many as possible know it.
        parts.iter_mut().for_each(|part| part.decide(counted.is_ok()));
        let mut said = Vec::new();
        for part in &mut parts {
            let again = || "it is started again, with the new definition".to_owned();
            let text = part.outcome();
            said.push(format!("gateway '{}': {}", part.name(), text.unwrap_or_else(again)));
            if counted.is_ok() {
                part.set_version(definition.version);
            }
        }
        counted.map(|()| said.join("\n"))
    }

    /// The catalogue with the definition of a statement, and the definition.
    fn next_definition(
        &self,
        statement: &Statement,
        catalog: &Catalog,
    ) -> Result<(Catalog, Arc<Definition>), Error> {
        let mut planner = Planner::at(catalog.clone(), self.settings.clone());
        planner.set_paths_in(self.runtime.paths_in().map(std::path::Path::to_owned));
        planner.execute(statement)?;
        let next = planner.into_catalog();
        match &next.definitions()[catalog.version() as usize..] {
            [definition] => Ok((next.clone(), Arc::clone(definition))),
            _ => Err(Cause::bug("what replaces a definition is not one definition").into()),
        }
    }

    /// The definition counts from here on: it is in the log.
    fn count(
        &self,
        statement: &Statement,
        replacement: &Replacement,
        folder: Option<String>,
    ) -> Result<(), Error> {
        let runtime = self.runtime;
        let plan = |catalog: Catalog| {
            let (next, planned) = self.next_definition(statement, &catalog)?;
            if planned == replacement.definition {
                Ok(next)
            } else {
                Err(Cause::operation("something else was defined meanwhile; try again").into())
            }
        };
        if replacement.stays_stopped {
            return runtime.catalog_store().redefine(&[], plan);
        }
        let query = self.query_for_gateways(&replacement.query.name, folder.as_deref());
        runtime.catalog_store().replace(query.clone(), &[], plan)?;
        runtime.note_at_gateways(query);
        Ok(())
    }
}

/// Gives a gateway an order, unless it is away: then it follows the log when it is back.
fn ordered<'a>(
    gateway: &'a Gateway,
    order: &Order,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Exclusive<'a>, NoOrder> {
    let mut exclusive = gateway
        .exclusive(is_cancelled)
        .map_err(|cause| if is_cancelled() { NoOrder::Cancelled(cause) } else { NoOrder::Away(cause) })?;
    exclusive.send(order).map_err(NoOrder::Away)?;
    Ok(exclusive)
}

/// Why a gateway has not got an order.
enum NoOrder {
    /// It is away, and follows the log when it is back.
    Away(Cause),
    /// The statement was cancelled before.
    Cancelled(Cause),
}

/// What a gateway has done.
fn done(gateway: &mut Exclusive<'_>, is_cancelled: &dyn Fn() -> bool) -> Result<String, Cause> {
    match gateway.answer(is_cancelled)? {
        Some(Answer::Said(text)) => Ok(text),
        Some(Answer::Failed(cause)) => Err(gateway.named(cause)),
        Some(_) => Err(gateway.named(Cause::bug("it answers what it was not asked"))),
        None => Ok("it still does so".to_owned()),
    }
}

/// Whether the parts at all gateways keep their state under a definition.
fn all_keep(
    parts: &mut [Exclusive<'_>],
    definition: &Arc<Definition>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<bool, Cause> {
    let order = Order::Keeps(Arc::clone(definition));
    parts.iter_mut().try_for_each(|part| part.send(&order))?;
    let mut keeps = true;
    for part in parts {
        match part.answer(is_cancelled)? {
            Some(Answer::Keeps(own)) => keeps &= own,
            Some(Answer::Failed(cause)) => return Err(part.named(cause)),
            Some(_) => return Err(part.named(Cause::bug("it answers what it was not asked"))),
            None => return Err(Cause::operation("the statement was cancelled; nothing has changed")),
        }
    }
    Ok(keeps)
}

/// Lets all gateways prepare a replacement, up to where only the decision is missing; the name of the folder that it has there.
fn prepared(
    parts: &mut [Exclusive<'_>],
    replacement: &Replacement,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<String>, Cause> {
    let order = Order::Replace(replacement.clone());
    parts.iter_mut().try_for_each(|part| part.send(&order))?;
    let mut folder: Option<String> = None;
    for part in parts {
        let own = part.ready(is_cancelled)?;
        if let (Some(known), Some(own)) = (&folder, &own)
            && known != own
        {
            return Err(part.named(Cause::operation(format!(
                "its part is in the folder {own}, that of another gateway in {known}, and the log has one name for \
                 all; DROP the view, and create it again"
            ))));
        }
        folder = own.or(folder);
    }
    Ok(folder)
}

fn was_not_started(view: &str) -> Cause {
    Cause::user(format!("'{view}' is defined, but it was not started at its gateways; START it, or DROP it"))
}
