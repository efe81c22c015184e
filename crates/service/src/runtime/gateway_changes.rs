//! The changes of a view whose parts are at gateways, for a session that waits for them (decision 0112).

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_engine::arrow::array::{ArrayRef, RecordBatch, StringArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Cause, bytes_of_rows};
use tidemill_sql::GatewayRows;
use tidemill_store::remote::{Changes, NoChanges, RemoteFollower};

use crate::backoff::Backoff;
use crate::runtime::cancellation::StatementCancellation;
use crate::runtime::subscription::{LOOK_MAX, Subscription, cancelled, gone};
use crate::runtime::unread::UnreadRows;
use crate::{Cancellation, Runtime};

/// The columns before those of the view: `cycle`, `change` and `gateway`.
const OWN: usize = 3;
/// How long the answer of a gateway is waited for before the next one is looked at.
const ANSWER_TIME: Duration = Duration::from_millis(1);
/// How long a subscriber waits for a gateway that is away.
const AWAY_TIME: Duration = Duration::from_secs(60);

/// The columns of a subscription to such a view.
pub(crate) fn schema_of(view: &GatewayRows) -> SchemaRef {
    let own: [_; OWN] = [("cycle", DataType::Int64), ("change", DataType::Utf8), ("gateway", DataType::Utf8)];
    let own = own.map(|(name, data_type)| Arc::new(Field::new(name, data_type, false)));
    Arc::new(Schema::new(own.into_iter().chain(view.columns_of_changes()).collect::<Vec<_>>()))
}

/// The changes of all parts, each with the name and the cycle of its gateway.
pub(crate) struct GatewayChanges {
    runtime: Runtime,
    view: GatewayRows,
    schema: SchemaRef,
    parts: Vec<PartChanges>,
    /// What is to be given next.
    ready: VecDeque<RecordBatch>,
    /// Why nothing follows that.
    ended: Option<Cause>,
    held: UnreadRows,
    cancellation: StatementCancellation,
}

/// The changes of the part at one gateway.
struct PartChanges {
    gateway: String,
    follower: RemoteFollower,
    /// Whether the gateway has answered.
    has_answered: bool,
    /// Whether some rows were given.
    has_given: bool,
    /// Whether all rows were given that the part had at first. From then on, a cycle is given when it is complete.
    has_begun: bool,
    /// Rows of a cycle of which more is to come.
    held: Vec<RecordBatch>,
    away_since: Option<Instant>,
    is_over: bool,
}

impl GatewayChanges {
    pub fn subscription(
        runtime: &Runtime,
        (view, names): (GatewayRows, &[String]),
        held: UnreadRows,
        cancellation: Cancellation,
    ) -> Subscription {
        let part = |(gateway, name): (_, &String)| PartChanges {
            gateway: name.clone(),
            follower: RemoteFollower::new(gateway, view.name()),
            has_answered: false,
            has_given: false,
            has_begun: false,
            held: Vec::new(),
            away_since: None,
            is_over: false,
        };
        let parts = view.gateways().iter().zip(names).map(part).collect();
        let schema = schema_of(&view);
        let changes = GatewayChanges {
            runtime: runtime.clone(),
            view,
            schema: SchemaRef::clone(&schema),
            parts,
            ready: VecDeque::new(),
            ended: None,
            held,
            cancellation: cancellation.of_statement(),
        };
        Subscription::new(schema, changes)
    }

    /// Asks all gateways, and takes what they answer.
    fn look(&mut self) -> Result<(), Cause> {
        for part in self.parts.iter_mut().filter(|part| !part.is_over) {
            if let Err(NoChanges::Ended(cause) | NoChanges::Away(cause)) = part.follower.ask() {
                part.is_away(cause)?;
            }
        }
        let cancellation = &self.cancellation;
        let pause = &mut |_| if cancellation.is_cancelled() { Err(cancelled()) } else { Ok(()) };
        for part in self.parts.iter_mut().filter(|part| !part.is_over) {
            match part.follower.answer(ANSWER_TIME, pause) {
                Ok(None) => {}
                Ok(Some(changes)) => {
                    for rows in part.complete(changes) {
                        self.ready.push_back(named(&self.schema, &part.gateway, &rows)?);
                    }
                }
                Err(NoChanges::Away(cause)) => part.is_away(cause)?,
                Err(NoChanges::Ended(cause)) => return Err(part.named(&cause)),
            }
        }
        self.count();
        self.held.check()
    }

    /// What is held counts as rows that the client has not read.
    fn count(&mut self) {
        let held = self.parts.iter().flat_map(|part| &part.held).chain(&self.ready);
        self.held.set(held.map(|rows| bytes_of_rows(rows) as u64).sum());
    }
}

impl Iterator for GatewayChanges {
    type Item = Result<RecordBatch, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        let backoff = Backoff::up_to(LOOK_MAX);
        loop {
            if self.cancellation.is_cancelled() {
                return Some(Err(cancelled()));
            }
            if let Some(rows) = self.ready.pop_front() {
                self.count();
                return Some(Ok(rows));
            }
            if let Some(cause) = &self.ended {
                return Some(Err(cause.clone()));
            }
            let is_gone = !self.runtime.catalog_store().has_parts(&self.view);
            self.ended = self.look().err();
            if is_gone {
                // A gateway may have followed already, and says so.
                self.ended = Some(gone(self.view.name()));
            }
            if self.ready.is_empty() && self.ended.is_none() {
                if self.parts.iter().all(|part| part.is_over) {
                    return None;
                }
                thread::sleep(backoff.wait());
            }
        }
    }
}

impl PartChanges {
    /// What is complete with these changes.
    fn complete(&mut self, changes: Changes) -> Vec<RecordBatch> {
        self.away_since = None;
        self.has_answered = true;
        self.is_over = changes.is_over;
        self.has_given |= changes.rows.is_some();
        self.held.extend(changes.rows);
        let is_complete = changes.place.is_some() || !self.has_begun;
        self.has_begun |= changes.place.is_some();
        if is_complete { std::mem::take(&mut self.held) } else { Vec::new() }
    }

    /// The gateway is away. It is waited for, unless it has never answered: then a query would fail, too. One that had no rows yet
    /// begins with those that it has when it is back.
    fn is_away(&mut self, cause: Cause) -> Result<(), Cause> {
        // They are given again.
        self.held.clear();
        let since = *self.away_since.get_or_insert_with(Instant::now);
        let is_within_first_rows = self.has_given && !self.has_begun;
        match (self.has_answered, is_within_first_rows) {
            (false, _) => Err(cause),
            (true, true) => Err(Cause::operation(format!(
                "gateway '{}' has ended before it had given all rows of the view; SUBSCRIBE TO it again",
                self.gateway
            ))),
            (true, false) if since.elapsed() > AWAY_TIME => Err(cause.map_message(|message| {
                format!("nothing comes from a gateway for {} s: {message}", AWAY_TIME.as_secs())
            })),
            (true, false) => Ok(()),
        }
    }

    fn named(&self, cause: &Cause) -> Cause {
        cause.clone().map_message(|message| format!("gateway '{}': {message}", self.gateway))
    }
}

/// Rows of a gateway, with its name.
fn named(schema: &SchemaRef, gateway: &str, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(gateway, rows.num_rows())));
    let mut columns = rows.columns().to_vec();
    columns.insert((OWN - 1).min(columns.len()), names);
    // A part may know of a column that it is never NULL, where the view does not.
    RecordBatch::try_new(SchemaRef::clone(schema), columns).map_err(|error| {
        Cause::bug(format!("a gateway has other columns than its view: {error}")).with_source(error)
    })
}
