//! Joins of two streams.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::SchemaRef;
use tidemill_engine::Cause;
use tidemill_operators::interval_join::{IntervalJoin, IntervalJoinSpec, output_schema};
use tidemill_operators::join::JoinKind;

use crate::build::duplicate;
use crate::keyed::KeyedStream;
use crate::stream::Stream;

/// How far apart in event time the two rows of a pair may be.
///
/// ```
/// use std::time::Duration;
/// use tidemill::Within;
/// // A payment counts for an order if it comes up to an hour after it.
/// let within = Within::new("ordered_at", "paid_at").after(Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    left_time: String,
    right_time: String,
    before: Duration,
    after: Duration,
}

impl Within {
    /// Pairs rows with equal times in these columns of the left and the right stream.
    pub fn new(left_time: &str, right_time: &str) -> Within {
        let (left_time, right_time) = (left_time.to_owned(), right_time.to_owned());
        Within { left_time, right_time, before: Duration::ZERO, after: Duration::ZERO }
    }

    /// Lets the right row be earlier by up to this much.
    #[must_use]
    pub fn before(self, before: Duration) -> Within {
        Within { before, ..self }
    }

    /// Lets the right row be later by up to this much.
    #[must_use]
    pub fn after(self, after: Duration) -> Within {
        Within { after, ..self }
    }
}

impl KeyedStream {
    /// Pairs each row with the rows of another stream that have an equal key and lie within the given time of it. The
    /// output has the left columns, then the right ones. NULL equals nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill::{Engine, Query, Timestamp, Within};
    ///
    /// let mut query = Query::new("paid");
    /// let second = Duration::from_secs(1);
    /// let orders = query.rows::<(u32, Timestamp)>("orders", ["order", "ordered_at"]).event_time("ordered_at", second);
    /// let payments = query.rows::<(u32, Timestamp)>("payments", ["paid", "paid_at"]).event_time("paid_at", second);
    /// let within = Within::new("ordered_at", "paid_at").after(60 * second);
    /// let paid = orders.key_by("order").join("paid", &payments.key_by("paid"), &within).collect("paid", 10);
    /// let run = Engine::new().start(query)?;
    /// run.input(&orders)?.push([(7, Timestamp(0)), (8, Timestamp(0))])?;
    /// run.input(&payments)?.push([(7, Timestamp(5_000_000_000)), (8, Timestamp(90_000_000_000))])?;
    /// run.finish()?;
    /// assert_eq!(paid.len(), 1);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn join(&self, name: &str, right: &KeyedStream, within: &Within) -> Stream {
        self.joined(name, right, within, JoinKind::Inner)
    }

    /// Like [`join`](KeyedStream::join), but keeps a row without a partner, with NULLs in the columns of the right
    /// stream. It is emitted when event time shows that no partner can come any more.
    #[must_use]
    pub fn left_join(&self, name: &str, right: &KeyedStream, within: &Within) -> Stream {
        self.joined(name, right, within, JoinKind::Left)
    }

    fn joined(&self, name: &str, right: &KeyedStream, within: &Within, kind: JoinKind) -> Stream {
        let place = format!("join '{name}'");
        if !self.stream.is_of_same_query(&place, &right.stream) {
            return self.stream.clone();
        }
        let left_time = self.stream.time_column(&within.left_time);
        let right_time = right.stream.time_column(&within.right_time);
        let (Some(left_time), Some(right_time)) = (left_time, right_time) else { return self.stream.clone() };
        let both = self.stream.with_time_of(&right.stream);
        let nanoseconds = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        let (low_ns, high_ns) = (-nanoseconds(within.after), nanoseconds(within.before));
        let build = self.stream.build.borrow();
        let spec = IntervalJoinSpec {
            left: Arc::clone(&self.stream.schema),
            right: Arc::clone(&right.stream.schema),
            left_keys: self.keys.clone(),
            right_keys: right.keys.clone(),
            left_time,
            right_time,
            low_ns,
            high_ns,
            kind,
            residual: None,
            watermark: both.watermark(),
            rows_max: build.keys_max_for(self.keys.len()),
            late: build.late.clone(),
        };
        drop(build);
        match self.plan_join(name, right, spec) {
            Err(cause) => self.failed(format!("{place}: {cause}")),
            Ok((stream, schema)) => {
                let behind_ns = low_ns.saturating_neg().max(high_ns);
                let delay_ns = both.delay_ns.saturating_add(behind_ns);
                let times = self.stream.times.iter().chain(&right.stream.times).cloned().collect();
                Stream { stream, schema, times, delay_ns, ..both }
            }
        }
    }

    fn plan_join(
        &self,
        name: &str,
        right: &KeyedStream,
        spec: IntervalJoinSpec,
    ) -> Result<(tidemill_engine::StreamRef, SchemaRef), Cause> {
        if self.keys.len() != right.keys.len() {
            let (left, right) = (self.keys.len(), right.keys.len());
            return Err(Cause::user(format!(
                "the left stream has {left} key columns, the right one {right}"
            )));
        }
        let types = |keyed: &KeyedStream| -> Vec<_> {
            keyed.keys.iter().map(|key| keyed.stream.schema.field(*key).data_type().clone()).collect()
        };
        if types(self) != types(right) {
            let (left, right) = (types(self), types(right));
            return Err(Cause::user(format!("the keys have different types: {left:?} and {right:?}")));
        }
        let output = output_schema(&spec);
        if let Some(twice) = duplicate(&output) {
            return Err(Cause::user(format!(
                "both streams have a column '{twice}'; rename one with map(), or remove it with select()"
            )));
        }
        IntervalJoin::new(spec.clone())?;
        let inputs = [self.stream.input(&self.keys), right.stream.input(&right.keys)];
        let stream = self.stream.build.borrow_mut().operator(name, &inputs, &output, move |_| {
            Box::new(IntervalJoin::new(spec.clone()).expect("checked when it was planned"))
        });
        Ok((stream, output))
    }
}
