//! Sources whose rows are tuples.

use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use crate::error::Error;
use crate::input::Input;
use crate::row::Row;
use crate::stream::Stream;

/// A stream whose rows the program pushes as tuples: [`Query::rows`](crate::Query::rows). It has all methods of a
/// [`Stream`].
pub struct RowSource<R> {
    stream: Stream,
    row: PhantomData<fn(R)>,
}

/// Where a program pushes tuples: [`Run::input`](crate::Run::input). It has all methods of an [`Input`].
pub struct RowInput<R> {
    input: Input,
    row: PhantomData<fn(R)>,
}

/// A source to which a program pushes: a [`Stream`] from [`Query::source`](crate::Query::source), or a [`RowSource`].
pub trait PushedSource {
    /// Where its rows are pushed.
    type Input;
    /// Its stream.
    fn stream(&self) -> &Stream;
    /// Its input, given the input of its stream.
    fn typed(&self, input: Input) -> Self::Input;
}

impl PushedSource for Stream {
    type Input = Input;

    fn stream(&self) -> &Stream {
        self
    }
    fn typed(&self, input: Input) -> Input {
        input
    }
}

impl<R: Row> PushedSource for RowSource<R> {
    type Input = RowInput<R>;

    fn stream(&self) -> &Stream {
        &self.stream
    }
    fn typed(&self, input: Input) -> RowInput<R> {
        RowInput { input, row: PhantomData }
    }
}

impl<R> RowSource<R> {
    pub(crate) fn new(stream: Stream) -> Self {
        RowSource { stream, row: PhantomData }
    }

    /// Like [`Stream::event_time`].
    #[must_use]
    pub fn event_time(self, column: &str, delay: Duration) -> Self {
        RowSource::new(self.stream.event_time(column, delay))
    }
}

impl<R> Clone for RowSource<R> {
    fn clone(&self) -> Self {
        RowSource::new(self.stream.clone())
    }
}

impl<R> Deref for RowSource<R> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl<R: Row> RowInput<R> {
    /// Pushes some rows. Waits while the query has as much work waiting as it may keep in memory.
    ///
    /// # Errors
    /// As for [`Input::push`].
    pub fn push(&self, rows: impl IntoIterator<Item = R>) -> Result<(), Error> {
        self.input.push(self.input.batch_of(rows)?)
    }

    /// Pushes some rows that count once, no matter how often they are pushed.
    ///
    /// # Errors
    /// As for [`Input::push_once`].
    pub fn push_once(
        &self,
        client: &str,
        sequence: u64,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Error> {
        self.input.push_once(client, sequence, self.input.batch_of(rows)?)
    }
}

impl<R> Clone for RowInput<R> {
    fn clone(&self) -> Self {
        RowInput { input: self.input.clone(), row: PhantomData }
    }
}

impl<R> Deref for RowInput<R> {
    type Target = Input;

    fn deref(&self) -> &Input {
        &self.input
    }
}
