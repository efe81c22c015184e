//! The source: takes what was posted, makes rows from it, and answers the clients.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use parking_lot::Mutex;
use tidemill_core::SourceThreads;
use tidemill_core::error::Cause;
use tidemill_core::source::{Admission, Faults, Polled, Progress, Request, Source};
use tokio::sync::{Semaphore, oneshot};

use super::HttpSettings;
use super::answer::line_of;
use super::body::ROOM_BYTES;
use super::server::Server;
use super::service::Service;
use super::waiting::{BodyFormat, Outcome, PendingRequest};
use crate::formats::encode::row_json;
use crate::formats::line_protocol::LineProtocolDecoder;
use crate::formats::{BATCH_ROWS, Format, RecordDecoder, project, text_decoder};
use crate::listen_policy::ListenPolicy;
use crate::quotas::ClientQuotas;
use crate::tls::TlsServer;
use crate::tokens::Tokens;

/// Rows that were posted over HTTP.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::formats::DecoderSettings;
/// use tidemill_connect::http::{HttpSettings, HttpSource};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::source::{Polled, Source};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("usage", DataType::Float64, true)]));
/// let decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let mut source = HttpSource::listen(HttpSettings::new("127.0.0.1:0", decoder))?;
///
/// let mut agent = TcpStream::connect(source.local_address())?;
/// agent.write_all(b"POST /api/v2/write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 12\r\n\r\ncpu usage=1\n")?;
/// let Polled::Rows(rows) = source.poll(Duration::from_secs(10))? else { panic!("there are rows") };
/// assert_eq!(rows.num_rows(), 1);
/// let mut answer = String::new();
/// agent.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 204"));
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct HttpSource {
    settings: HttpSettings,
    schema: SchemaRef,
    line_protocol: Option<LineProtocolDecoder>,
    /// JSON lines, or a format of the program's own.
    records: Option<Box<dyn RecordDecoder>>,
    address: SocketAddr,
    queue: Receiver<PendingRequest>,
    /// Taken out of the queue, but belongs to the next batch.
    next: Option<PendingRequest>,
    /// Rows of a large request that are still to be returned.
    held: Option<RecordBatch>,
    /// Clients that wait for an answer, with the number of rows that must be safe.
    unanswered: VecDeque<(u64, oneshot::Sender<Outcome>, Outcome)>,
    /// The rows that were made, and how many of them were returned.
    made: u64,
    given: u64,
    /// Decides which rows may come in, if this source has taken over that task.
    admission: Option<Box<dyn Admission>>,
    faults: Faults,
    /// Connections that were cut off before they sent a request.
    cut_off: Arc<Mutex<Faults>>,
    threads: SourceThreads,
    _server: Server,
}

impl HttpSource {
    /// Listens, and serves from now on.
    ///
    /// # Errors
    /// [`Cause::user`] if the address is invalid or not allowed, or a setting or column is not supported;
    /// [`Cause::operation`] if it is in use.
    pub fn listen(settings: HttpSettings) -> Result<HttpSource, Cause> {
        settings.check()?;
        let listener = bind(&settings)?;
        let address = listener.local_addr()?;
        let line_protocol = settings
            .formats
            .contains(&Format::LineProtocol)
            .then(|| LineProtocolDecoder::new(settings.decoder.clone(), settings.line_protocol.clone()))
            .transpose()?;
        let other = settings.formats.iter().find(|format| **format != Format::LineProtocol);
        let records =
            other.map(|format| text_decoder(format.clone(), settings.decoder.clone())).transpose()?;
        let (sender, queue) = channel();
        // The queue itself is unbounded: what is in it has taken its share of the room.
        let room = Arc::new(Semaphore::new(settings.queue_bytes / ROOM_BYTES + settings.connections_max));
        let cut_off = Arc::<Mutex<Faults>>::default();
        let service = Service {
            room,
            queue: sender,
            tls: settings.tls.clone().map(TlsServer::open).transpose()?,
            faults: Arc::clone(&cut_off),
            quotas: ClientQuotas::new(settings.quotas),
            tokens: Tokens::open(settings.token.clone(), settings.token_file.clone(), &settings.source)?,
            is_local: address.ip().is_loopback(),
            settings: settings.clone(),
        };
        let threads = SourceThreads::default();
        Ok(HttpSource {
            schema: Arc::clone(&settings.decoder.schema),
            line_protocol,
            records,
            address,
            queue,
            next: None,
            held: None,
            unanswered: VecDeque::new(),
            made: 0,
            given: 0,
            admission: None,
            faults: Faults::default(),
            cut_off,
            _server: Server::start(listener, service, &threads)?,
            threads,
            settings,
        })
    }

    /// The address it listens at.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Makes only these of the declared columns, in this order. Call it before the first poll.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = project(&self.settings.decoder.schema, columns)?;
        if let Some(decoder) = &mut self.line_protocol {
            decoder.set_projection(columns)?;
        }
        self.records.as_mut().map_or(Ok(()), |decoder| decoder.set_projection(columns))
    }

    /// Takes requests until there are enough rows; waits only for the first ones. The rows of a numbered request are
    /// alone.
    fn gather(&mut self, until: Instant) -> Result<(Vec<RecordBatch>, Option<Request>), Cause> {
        let (mut batches, mut rows) = (Vec::new(), 0);
        while rows < BATCH_ROWS {
            let Some(posted) = self.take(if rows == 0 { until } else { Instant::now() }) else { break };
            if posted.request.is_some() && rows > 0 {
                self.next = Some(posted);
                break;
            }
            let request = posted.request.clone();
            let made = self.decode(posted)?;
            rows += made.iter().map(RecordBatch::num_rows).sum::<usize>();
            batches.extend(made);
            if request.is_some() && rows > 0 {
                return Ok((batches, request));
            }
        }
        Ok((batches, None))
    }

    fn take(&mut self, until: Instant) -> Option<PendingRequest> {
        if let Some(posted) = self.next.take() {
            return Some(posted);
        }
        self.queue.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    /// The rows of a request; its client is answered when they are safe.
    fn decode(&mut self, posted: PendingRequest) -> Result<VecDeque<RecordBatch>, Cause> {
        let mut batches = VecDeque::new();
        let decoder: &mut dyn RecordDecoder = match (posted.kind, &mut self.line_protocol, &mut self.records)
        {
            (BodyFormat::LineProtocol(precision), Some(decoder), _) => {
                decoder.set_precision(precision.unwrap_or(self.settings.line_protocol.precision));
                decoder.set_arrival(Some(posted.arrival_ns));
                decoder
            }
            (BodyFormat::Records | BodyFormat::Objects, _, Some(decoder)) => decoder.as_mut(),
            _ => return Err(Cause::bug("a request in a format that is not accepted")),
        };
        decoder.begin("request");
        decoder.decode(&posted.body.bytes, &mut batches)?;
        decoder.finish(&mut batches)?;
        let undeclared = self.line_protocol.as_mut().map(LineProtocolDecoder::take_undeclared);
        for name in undeclared.into_iter().flatten() {
            self.faults.add(format!("http {}: {name}", posted.peer));
        }
        let mut faults = match posted.kind {
            BodyFormat::LineProtocol(_) => self.line_protocol.as_mut().map(LineProtocolDecoder::take_faults),
            BodyFormat::Records | BodyFormat::Objects => {
                self.records.as_mut().map(|decoder| decoder.faults())
            }
        }
        .unwrap_or_default();
        let in_request =
            |text: &mut String| *text = text.strip_prefix("request, ").unwrap_or(text).to_owned();
        faults.change_places(in_request);
        faults.notices.change(in_request);
        self.admit(posted.kind, &mut batches, &mut faults)?;
        if posted.kind == BodyFormat::Objects {
            faults.change_places(|text| *text = text.replacen("line", "object", 1));
        }
        let mut reported =
            Faults { count: faults.count, samples: faults.samples.clone(), ..Faults::default() };
        reported.records = faults.records.take();
        let request = posted
            .request
            .as_ref()
            .map_or(String::new(), |request| format!(", request {} of {}", request.sequence, request.client));
        reported.notices = faults.notices.clone();
        let with_peer = |text: &mut String| *text = format!("http {}{request}, {text}", posted.peer);
        reported.change_places(with_peer);
        reported.notices.change(with_peer);
        self.faults.merge(reported);
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        self.made += rows as u64;
        let outcome = Outcome { rows, faults, refused_for: None };
        match rows {
            // Nothing needs to become safe. A client that is gone needs no answer.
            0 => drop(posted.outcome.send(outcome)),
            _ => self.unanswered.push_back((self.made, posted.outcome, outcome)),
        }
        Ok(batches)
    }

    /// Leaves out the rows that may not come in, and reports their lines.
    fn admit(
        &mut self,
        kind: BodyFormat,
        batches: &mut VecDeque<RecordBatch>,
        faults: &mut Faults,
    ) -> Result<(), Cause> {
        let Some(admission) = &mut self.admission else { return Ok(()) };
        let lines = match kind {
            BodyFormat::LineProtocol(_) => {
                self.line_protocol.as_mut().map(LineProtocolDecoder::take_row_lines)
            }
            BodyFormat::Records | BodyFormat::Objects => {
                self.records.as_mut().map(|decoder| decoder.take_row_lines())
            }
        }
        .unwrap_or_default();
        let (mut left_out, mut first) = (0, 0);
        for batch in batches.iter_mut() {
            let (refused, rows) = (admission.refused(batch)?, batch.num_rows());
            for (place, row) in refused.rows.iter().enumerate() {
                let line = lines.get(first + row).copied().unwrap_or_default();
                left_out += 1;
                if let Some(records) = &mut faults.records {
                    let row = row_json(&batch.slice(*row, 1));
                    records.add_row(format!("line {line}"), refused.reason(place).to_owned(), row);
                }
                if left_out <= Faults::SAMPLES_MAX as u64 {
                    faults.samples.push(format!("line {line}: {}", refused.reason(place)));
                }
            }
            if !refused.rows.is_empty() {
                *batch = filter_record_batch(batch, &refused.admitted(rows))
                    .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
            }
            first += rows;
        }
        batches.retain(|batch| batch.num_rows() > 0);
        faults.count += left_out;
        faults.samples.sort_by_key(|sample| line_of(sample));
        faults.samples.truncate(Faults::SAMPLES_MAX);
        Ok(())
    }

    /// Returns rows, and keeps those beyond a batch of the usual size.
    fn give(&mut self, rows: RecordBatch) -> RecordBatch {
        let usual = BATCH_ROWS.min(rows.num_rows());
        if usual < rows.num_rows() {
            self.held = Some(rows.slice(usual, rows.num_rows() - usual));
        }
        self.count(rows.slice(0, usual))
    }

    /// Returns rows, which are no longer here.
    fn count(&mut self, rows: RecordBatch) -> RecordBatch {
        self.given += rows.num_rows() as u64;
        if !self.settings.acknowledge {
            self.answer(self.given);
        }
        rows
    }

    fn answer(&mut self, safe: u64) {
        while let Some((_, sender, outcome)) = self.unanswered.pop_front_if(|(rows, ..)| *rows <= safe) {
            // A client that is gone needs none.
            let _ = sender.send(outcome);
        }
    }
}

impl Source for HttpSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        if let Some(rows) = self.held.take() {
            return Ok(Polled::Rows(self.give(rows)));
        }
        let (mut batches, request) = self.gather(Instant::now() + wait)?;
        let rows = match batches.len() {
            0 => return Ok(Polled::Nothing),
            1 => batches.swap_remove(0),
            _ => concat_batches(&self.schema, &batches)
                .map_err(|error| Cause::bug(error.to_string()).with_source(error))?,
        };
        Ok(match request {
            Some(request) => Polled::Request { rows: self.count(rows), request },
            None => Polled::Rows(self.give(rows)),
        })
    }

    fn acknowledge(&mut self, rows: u64) {
        self.answer(rows);
    }

    fn refuse(&mut self, last: u64) {
        // A numbered request is its own batch, and nothing is decoded behind it before the next poll.
        if let Some((_, _, outcome)) = self.unanswered.back_mut() {
            outcome.refused_for = Some(last);
        }
    }

    fn admit_by(&mut self, admission: Box<dyn Admission>) -> Option<Box<dyn Admission>> {
        if let Some(decoder) = &mut self.line_protocol {
            decoder.keep_row_lines();
        }
        if let Some(decoder) = &mut self.records {
            decoder.keep_row_lines();
        }
        self.admission = Some(admission);
        None
    }

    fn threads(&self) -> Option<SourceThreads> {
        Some(self.threads.clone())
    }

    fn keep_bad_records(&mut self) {
        if let Some(decoder) = &mut self.line_protocol {
            decoder.keep_bad_records();
        }
        if let Some(decoder) = &mut self.records {
            decoder.keep_bad_records();
        }
    }

    fn faults(&mut self) -> Faults {
        let cut_off = std::mem::take(&mut *self.cut_off.lock());
        self.faults.merge(cut_off);
        std::mem::take(&mut self.faults)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.given, total: None }
    }

    fn is_finite(&self) -> bool {
        false
    }
}

impl std::fmt::Debug for HttpSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HttpSource").field("address", &self.address).finish_non_exhaustive()
    }
}

fn bind(settings: &HttpSettings) -> Result<TcpListener, Cause> {
    let address = &settings.address;
    let found: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|error| {
            Cause::user(format!("http '{address}': not a valid address: {error}; write host:port"))
                .with_source(error)
        })?
        .collect();
    let has_token = settings.token.is_some() || settings.token_file.is_some();
    let has_authority = settings.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
    let HttpSettings { allow_remote, insecure, .. } = *settings;
    let policy = ListenPolicy { allow_remote, is_guarded: has_token || has_authority, insecure };
    policy.check(&format!("http {address}"), &found)?;
    TcpListener::bind(found.as_slice())
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| {
            Cause::operation(format!("http {address}: cannot listen: {error}; choose another port"))
                .with_source(error)
        })
}
