//! Replaces the definition of a view or sink whose query runs, and the query with it: there is always one of both, and no row is
//! lost silently (decision 0097).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_engine::{Beginning, Cause, inspect};
use tidemill_sql::{Catalog, Pipeline, SinkInput, Statement, StatementKind, ViewHandle};

use crate::lifecycle::catching_up::{end_behind_newest, stays, wait_for};
use crate::lifecycle::query_lifecycle::QueryLifecycle;
use crate::lifecycle::starting::NewQuery;
use crate::runtime::query::{Identity, NamedQuery};
use crate::{Error, Runtime};

/// What a query that took the place of another one has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementOutcome {
    /// Everything: it computes the same, so it continues with the state and the rows.
    State,
    /// The past: it was computed again from all rows that its sources ever had.
    AllRows,
    /// Part of the past: it was computed again from the rows behind this cycle. The journal of the database has no others.
    RowsAfter(u64),
    /// Nothing, and it needs nothing: its files are read again from their beginning.
    Again,
    /// The place: it continues behind the last cycle that the other one had committed, with an empty state.
    Place(Option<u64>),
    /// Nothing: it began empty, with the rows that come.
    Nothing,
}

impl ReplacementOutcome {
    /// A sentence for whoever replaced the view or sink of this name.
    ///
    /// ```
    /// use tidemill_service::ReplacementOutcome;
    /// let text = ReplacementOutcome::RowsAfter(41).describe("totals");
    /// assert_eq!(text, "'totals' was computed again from the rows behind cycle 41, the oldest that the journal has");
    /// ```
    pub fn describe(self, name: &str) -> String {
        match self {
            ReplacementOutcome::State => {
                format!("'{name}' computes what it computed before, and keeps its state and its rows")
            }
            ReplacementOutcome::AllRows => {
                format!("'{name}' was computed again from the first row of its sources on")
            }
            ReplacementOutcome::RowsAfter(cycle) => format!(
                "'{name}' was computed again from the rows behind cycle {cycle}, the oldest that the journal has"
            ),
            ReplacementOutcome::Again => {
                format!("'{name}' is computed again from the beginning of its files")
            }
            ReplacementOutcome::Place(Some(cycle)) => {
                format!(
                    "'{name}' continues behind cycle {cycle}; the new query begins there with an empty state"
                )
            }
            ReplacementOutcome::Place(None) => {
                format!("'{name}' had not written anything; the new query begins with the first row")
            }
            ReplacementOutcome::Nothing => {
                format!("'{name}' begins empty, with the rows that come from now on")
            }
        }
    }
}

/// A definition that is to replace the one of a query that was started.
struct Replacement<'a> {
    name: &'a str,
    statement: &'a Statement,
    old: Arc<NamedQuery>,
    pipeline: Pipeline,
    /// The folder of the new query, if the database has a journal.
    folder: Option<PathBuf>,
}

/// How a query is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplacementMode {
    /// It continues with its state.
    Continue,
    /// A view is filled beside it.
    Fill,
    /// A sink continues behind its last commit.
    Follow,
    /// It ends, and the new one begins.
    Begin,
}

/// Returns the view or sink that a statement replaces, if a query writes to it that was started for it alone.
pub(crate) fn replaced_by<'a>(runtime: &Runtime, statement: &'a Statement) -> Option<&'a str> {
    let name = match &statement.kind {
        StatementKind::CreateMaterializedView(view) if view.or_replace => view.name.as_str(),
        StatementKind::CreateSink(sink) if sink.or_replace => match sink.input.as_ref()? {
            SinkInput::Query(_) | SinkInput::Relation(_) => sink.name.as_str(),
        },
        _ => return None,
    };
    let query = runtime.query(name).ok()?;
    matches!(query.outputs(), [only] if only == name).then_some(name)
}

impl QueryLifecycle<'_> {
    /// Executes a statement that replaces a view or sink, and lets a query with the new definition take the place of the one that runs.
    ///
    /// # Errors
    /// The error, with its place; or why the new query cannot take the place. Then all stays as it was.
    pub fn replace(&mut self, statement: &Statement) -> Result<ReplacementOutcome, Error> {
        let name = replaced_by(self.runtime, statement).map(str::to_owned).unwrap_or_default();
        let _change = self.runtime.changes().begin(&name, "replaced")?;
        self.replace_alone(statement)
    }

    /// As `replace`, but what could keep its state is computed again.
    pub(crate) fn replace_by_filling(&mut self, statement: &Statement) -> Result<ReplacementOutcome, Error> {
        let replacement = self.replacement(statement)?;
        match self.mode(&replacement)? {
            ReplacementMode::Continue => self.fill(replacement),
            _ => self.replace(statement),
        }
    }

    /// As `replace`, while no other session changes the query.
    pub(crate) fn replace_alone(&mut self, statement: &Statement) -> Result<ReplacementOutcome, Error> {
        let replacement = self.replacement(statement)?;
        let inherited = match self.mode(&replacement)? {
            ReplacementMode::Continue => self.continue_with(replacement),
            ReplacementMode::Fill => self.fill(replacement),
            ReplacementMode::Follow => self.follow(replacement),
            ReplacementMode::Begin => self.exchange(replacement, ReplacementOutcome::Nothing),
        }?;
        self.runtime.keep_deadlines(&statement.kind);
        Ok(inherited)
    }

    /// What `replace` would do, as a sentence. Nothing is done.
    ///
    /// # Errors
    /// As `replace`, as far as that is known before it is tried.
    pub(crate) fn describe_replacement(&mut self, statement: &Statement) -> Result<String, Error> {
        let replacement = self.replacement(statement)?;
        let mode = self.mode(&replacement)?;
        let Replacement { name, pipeline, .. } = replacement;
        let begins_earliest = pipeline.beginning() == Some(Beginning::Earliest);
        Ok(match mode {
            ReplacementMode::Continue => {
                format!("replaces '{name}': computes the same, and keeps its state and its rows")
            }
            ReplacementMode::Fill if pipeline.journal().is_none() && pipeline.starts_over() => {
                format!("replaces '{name}': is computed again from the beginning of its files")
            }
            ReplacementMode::Fill if pipeline.journal().is_none() => {
                format!("replaces '{name}': begins empty, because its sources keep no rows")
            }
            ReplacementMode::Fill if pipeline.says_where_to_begin() && !begins_earliest => {
                format!("replaces '{name}': begins empty; the rows of '{name}' are lost")
            }
            ReplacementMode::Fill if pipeline.says_where_to_begin() => {
                format!("replaces '{name}': is computed again from the rows that the journal still has")
            }
            ReplacementMode::Fill => format!(
                "replaces '{name}': is computed again from the journal, and is refused if that no longer has all rows"
            ),
            ReplacementMode::Follow => format!(
                "replaces '{name}': continues behind the last cycle that was written, with an empty state"
            ),
            ReplacementMode::Begin if begins_earliest => {
                format!("replaces '{name}': writes everything again that the journal still has")
            }
            ReplacementMode::Begin => {
                format!("replaces '{name}': begins with the rows that come, with an empty state")
            }
        })
    }

    /// Whether a statement that replaces a view or sink lets its query keep its state.
    pub(crate) fn keeps_state(&mut self, statement: &Statement) -> Result<bool, Error> {
        let replacement = self.replacement(statement)?;
        Ok(self.mode(&replacement)? == ReplacementMode::Continue)
    }

    /// Replaces the definition of a query that is stopped, and that stays so.
    pub(crate) fn redefine_stopped(&mut self, statement: &Statement, name: &str) -> Result<(), Error> {
        let runtime = self.runtime;
        let old = runtime.query(name)?;
        let folder = runtime.settings_of(&old.identity.kept)?.journal;
        let views: Vec<ViewHandle> = runtime.running_view(name).into_iter().collect();
        runtime.catalog_store().redefine(&views, |catalog| {
            self.plan_again(statement, name, (folder.as_deref(), &old.identity.computation), catalog)
        })
    }

    fn replacement<'a>(&mut self, statement: &'a Statement) -> Result<Replacement<'a>, Error> {
        let name = replaced_by(self.runtime, statement)
            .ok_or_else(|| Cause::bug("the statement replaces nothing that runs"))?;
        let runtime = self.runtime;
        let (old, folder) = (runtime.query(name)?, runtime.replacement_folder(name));
        let (pipeline, _) =
            self.plan_replaced(statement, name, folder.as_deref(), runtime.defined_catalog())?;
        Ok(Replacement { name, statement, old, pipeline, folder })
    }

    /// How a query is replaced.
    fn mode(&self, replacement: &Replacement<'_>) -> Result<ReplacementMode, Cause> {
        let Replacement { name, statement, old, pipeline, .. } = replacement;
        if pipeline.journal().is_some() && pipeline.computation() == old.identity.computation {
            return Ok(ReplacementMode::Continue);
        }
        let folder = self.runtime.settings_of(&old.identity.kept)?.journal;
        let has_state = match folder {
            Some(folder) => pipeline.journal().is_some() && inspect::query(&folder)?.is_some(),
            None => false,
        };
        if pipeline.has_own_clock() {
            return if has_state { Err(has_own_journal(name)) } else { Ok(ReplacementMode::Begin) };
        }
        if let StatementKind::CreateMaterializedView(_) = &statement.kind {
            return Ok(ReplacementMode::Fill);
        }
        let follows = pipeline.is_under(self.runtime.clock()) && has_state && !pipeline.says_where_to_begin();
        if !follows {
            Ok(ReplacementMode::Begin)
        } else if old.recovered.is_some() {
            Ok(ReplacementMode::Follow)
        } else if old.is_stopped() {
            Err(is_stopped(name))
        } else {
            Err(does_not_run(name))
        }
    }

    /// The query computes the same: it ends, and continues with what it has in its folder.
    fn continue_with(&mut self, replacement: Replacement<'_>) -> Result<ReplacementOutcome, Error> {
        let Replacement { name, statement, old, .. } = replacement;
        if let StatementKind::CreateMaterializedView(_) = &statement.kind {
            end_behind_newest(self.runtime, &old, name, &self.is_cancelled_from_here())?;
        }
        let runtime = self.runtime;
        let folder = runtime.settings_of(&old.identity.kept)?.journal;
        let (pipeline, _) =
            self.plan_replaced(statement, name, folder.as_deref(), runtime.defined_catalog())?;
        let kept = runtime.to_be_kept(name, &pipeline, self.is_strict);
        let clock_name = old.clock_name().to_owned();
        let query = NewQuery { kept, clock_name, pipeline, is_new: false };
        self.take_place(statement, &old, query, folder.as_deref())?;
        Ok(ReplacementOutcome::State)
    }

    /// A sink has one writer at a time: the old query ends, and the new one continues behind its last commit.
    fn follow(&mut self, mut replacement: Replacement<'_>) -> Result<ReplacementOutcome, Error> {
        let Replacement { name, pipeline, old, .. } = &mut replacement;
        // What it commits from here on is not lost, but given again: it is told to end before it is asked how far it is.
        old.abandon();
        let committed = old.report(name).cycle.or(old.begins_after);
        let beginning = committed.map_or(Beginning::Earliest, Beginning::After);
        pipeline.set_beginning(beginning);
        self.exchange(replacement, ReplacementOutcome::Place(committed))
    }

    /// The old query ends, and then the new one begins.
    fn exchange(
        &mut self,
        replacement: Replacement<'_>,
        inherited: ReplacementOutcome,
    ) -> Result<ReplacementOutcome, Error> {
        let Replacement { name, statement, old, pipeline, folder } = replacement;
        let kept = self.runtime.to_be_kept(name, &pipeline, self.is_strict);
        let query =
            NewQuery { kept, clock_name: clock_name(name, folder.as_deref()), pipeline, is_new: true };
        let is_earliest = query.pipeline.beginning() == Some(Beginning::Earliest);
        self.take_place(statement, &old, query, folder.as_deref())?;
        Ok(match (inherited, self.runtime.begins_after(name)?) {
            (ReplacementOutcome::Nothing, None) if is_earliest => ReplacementOutcome::AllRows,
            (ReplacementOutcome::Nothing, Some(cycle)) if is_earliest => ReplacementOutcome::RowsAfter(cycle),
            (inherited, _) => inherited,
        })
    }

    /// Ends a query, and starts another one in its place; if that fails, the first one again.
    fn take_place(
        &mut self,
        statement: &Statement,
        old: &Arc<NamedQuery>,
        query: NewQuery,
        folder: Option<&Path>,
    ) -> Result<(), Error> {
        let runtime = self.runtime;
        let (name, new_clock_name) = (query.kept.name.clone(), query.clock_name.clone());
        let computation = query.pipeline.computation().to_owned();
        old.abandon();
        let started = runtime.start_with(query, |kept, views| {
            let kept = runtime.catalog_store().replace(kept, views, |catalog| {
                self.plan_again(statement, &name, (folder, &computation), catalog)
            });
            kept.map_err(Cause::from)
        });
        let old_folder = runtime.settings_of(&old.identity.kept)?.journal;
        match started {
            Ok(()) => {
                if old.clock_name() != new_clock_name {
                    runtime.clock().forget(old.clock_name());
                }
                if let Some(old_folder) = old_folder.filter(|old_folder| Some(old_folder.as_path()) != folder)
                {
                    runtime.remove_replaced(&old_folder);
                }
                Ok(())
            }
            Err(mut cause) => {
                if let Some(folder) = folder.filter(|folder| old_folder.as_deref() != Some(*folder)) {
                    runtime.remove_replaced(folder);
                }
                if old.is_stopped() {
                    runtime.keep_stopped_as_it_was(old);
                } else {
                    let kept = old.identity.kept.clone();
                    let start = runtime.catalog_store().note_started(name.clone());
                    runtime.restart(kept, old.clock_name().to_owned(), start);
                }
                cause.message = stays(&name, &cause.message).message;
                Err(cause.into())
            }
        }
    }

    /// A view is filled beside the query that runs, and then takes its place.
    fn fill(&mut self, mut replacement: Replacement<'_>) -> Result<ReplacementOutcome, Error> {
        let runtime = self.runtime;
        let is_durable = replacement.pipeline.is_under(runtime.clock());
        let says_where = replacement.pipeline.says_where_to_begin();
        if is_durable && !says_where {
            replacement.pipeline.set_beginning(Beginning::Earliest);
        }
        let is_filled = replacement.pipeline.beginning() == Some(Beginning::Earliest);
        let starts_over = replacement.pipeline.starts_over();
        // Then it is complete only at its end.
        let is_finite = !is_durable && replacement.pipeline.is_finite();
        let Replacement { name, statement, old, pipeline, folder } = replacement;
        let beside = format!("{name} (replacement)");
        let before = runtime.reserve(&beside, &[])?;
        let kept = runtime.to_be_kept(name, &pipeline, self.is_strict);
        let clock_name = clock_name(name, folder.as_deref());
        let query = NewQuery { kept, clock_name: clock_name.clone(), pipeline, is_new: true };
        let started = runtime.run(query, |_, _| Ok(Box::new(|| ()))).map_err(Error::from);
        let filled = started.and_then(|query| {
            runtime.enter(beside.clone(), Arc::clone(&query));
            let lost = query.begins_after.filter(|_| is_durable && !says_where);
            let filled = match lost {
                Some(cycle) => Err(would_lose(name, cycle).into()),
                None => self.take_over(statement, (&old, &query), folder.as_deref(), is_finite),
            };
            filled.inspect_err(|_| query.abandon()).map(|()| query)
        });
        runtime.release(&beside, before);
        let query = filled.inspect_err(|_| {
            runtime.clock().forget(&clock_name);
            folder.iter().for_each(|folder| runtime.remove_replaced(folder));
        })?;
        let begins_after = query.begins_after;
        runtime.enter(name.to_owned(), query);
        old.abandon();
        runtime.clock().forget(old.clock_name());
        if let Some(folder) = runtime.settings_of(&old.identity.kept)?.journal {
            runtime.remove_replaced(&folder);
        }
        Ok(match begins_after {
            _ if !is_durable && starts_over => ReplacementOutcome::Again,
            _ if !(is_durable && is_filled) => ReplacementOutcome::Nothing,
            None => ReplacementOutcome::AllRows,
            Some(cycle) => ReplacementOutcome::RowsAfter(cycle),
        })
    }

    /// Waits until a new query has caught up with the old one. Then the log has it, and its views are read.
    fn take_over(
        &mut self,
        statement: &Statement,
        (old, new): (&NamedQuery, &NamedQuery),
        folder: Option<&Path>,
        is_finite: bool,
    ) -> Result<(), Error> {
        let runtime = self.runtime;
        let Identity { kept, computation, .. } = &new.identity;
        wait_for(new, old, &kept.name, is_finite, &self.is_cancelled_from_here())?;
        let replaced = runtime.catalog_store().replace(kept.clone(), &new.views, |catalog| {
            self.plan_again(statement, &kept.name, (folder, computation), catalog)
        });
        replaced.map(drop).map_err(|error| {
            let mut cause = Cause::from(error);
            cause.message = stays(&kept.name, &cause.message).message;
            cause.into()
        })
    }

    /// The next version of the catalogue, in which the statement must mean what the query computes that was started for it.
    fn plan_again(
        &mut self,
        statement: &Statement,
        name: &str,
        (folder, computation): (Option<&Path>, &str),
        catalog: Catalog,
    ) -> Result<Catalog, Error> {
        let (pipeline, next) = self.plan_replaced(statement, name, folder, catalog)?;
        if pipeline.computation() == computation {
            Ok(next)
        } else {
            Err(Cause::operation("what its new query names was redefined meanwhile; try again").into())
        }
    }
}

/// The name that a query has in the journal of the database: that of its folder, of which there is one.
fn clock_name(name: &str, folder: Option<&Path>) -> String {
    let of_folder = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    of_folder.unwrap_or_else(|| name.to_owned())
}

fn is_stopped(name: &str) -> Cause {
    Cause::user(format!(
        "sink '{name}' was stopped before the database was opened, so how far it has written is not known. \
         START SINK {name}, and replace it then; or say WITH (start = 'now') to leave out the rows since its last \
         commit, or start = 'earliest' to write again what the journal has"
    ))
}

fn has_own_journal(name: &str) -> Cause {
    Cause::user(format!(
        "'{name}' cannot be replaced by a query that computes something else: with cycles of its own, it has a \
         journal of its own, which belongs to the old query; DROP it, and create it again"
    ))
}

fn does_not_run(name: &str) -> Cause {
    Cause::user(format!(
        "sink '{name}' does not run, so how far it has written is not known. Mend why it failed (SHOW QUERIES), and \
         replace it by the same query to let it continue; or say WITH (start = 'now') to leave out the rows since its \
         last commit, or start = 'earliest' to write again what the journal has"
    ))
}

fn would_lose(name: &str, cycle: u64) -> Cause {
    Cause::user(format!(
        "to replace '{name}' would lose what it has computed from rows that the journal no longer has: it has those \
         behind cycle {cycle}. Say WITH (start = 'earliest') to compute it again from these, or start = 'now' to begin \
         empty; `retain` on a source keeps its rows"
    ))
}
