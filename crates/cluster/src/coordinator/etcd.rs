//! Records in etcd, by its JSON gateway over HTTP.
//!
//! The revision of a record is etcd's own revision of the change (`mod_revision`). The value of a key is the stamp, which has 16
//! bytes, and then the record's value. Reads are linearizable, which is the default of etcd.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::checks::{check, check_loopback};
use super::{Coordinator, CoordinatorError, Record, Revision, Stamp};

const PORT: u16 = 2379;
/// The most bytes of an answer that are read: more than all records of a cluster could have.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

pub(super) struct Etcd {
    place: String,
    /// Where all keys of the cluster begin.
    prefix: String,
    members: Vec<Member>,
    /// The member that is asked first.
    preferred: usize,
    timeout: Duration,
    runtime: Runtime,
    connection: Option<SendRequest<Full<Bytes>>>,
}

#[derive(Clone)]
struct Member {
    host: String,
    port: u16,
}

/// The end of a request that was not carried out, or of which nobody knows whether it was.
enum Failure {
    /// It was not sent.
    NotSent(String),
    /// It was sent, and what happened to it is not known.
    Lost(String),
    /// etcd refuses it.
    Refused(String),
}

impl Etcd {
    pub fn new(hosts: &str, cluster: &str, timeout: Duration) -> Result<Etcd, CoordinatorError> {
        let place = format!("etcd:{hosts}");
        let refused = |reason: String| CoordinatorError::Refused { place: place.clone(), reason };
        let list = hosts.trim_start_matches('/').trim_end_matches('/');
        let mut members = Vec::new();
        for text in list.split(',') {
            let (host, port) = match text.rsplit_once(':').filter(|_| !text.ends_with(']')) {
                Some((host, port)) => (host, port.parse().ok()),
                None => (text, Some(PORT)),
            };
            let is_host = !host.is_empty() && !host.contains(['@', '/']);
            let Some(port) = port.filter(|_| is_host) else {
                return Err(refused(format!("'{text}' is not HOST:PORT; write etcd://HOST:PORT,HOST:PORT")));
            };
            check_loopback(&place, host)?;
            members.push(Member { host: host.to_owned(), port });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refused(format!("no event loop can be made: {error}")))?;
        let prefix = format!("tidemill/{cluster}/");
        Ok(Etcd { place, prefix, members, preferred: 0, timeout, runtime, connection: None })
    }

    /// Asks a member; the answer, once it is whole. If that fails, the next call connects again, to the next member.
    fn ask(&mut self, path: &str, question: &Value) -> Result<Value, Failure> {
        let connection = self.connection.take().filter(|connection| !connection.is_closed());
        let (members, first, timeout) = (&self.members, self.preferred, self.timeout);
        let done = self.runtime.block_on(async {
            let (mut connection, member) = match connection {
                Some(connection) => (connection, first),
                None => connect_any(members, first, timeout).await?,
            };
            let asked = async {
                let response = send(&mut connection, &members[member], path, question).await?;
                let status = response.status();
                Ok((status, whole(response.into_body()).await?))
            };
            let (status, answer) = in_time(timeout, asked).await?;
            let answer = judge(status, &answer)?;
            Ok((connection, member, answer))
        });
        match done {
            Ok((connection, member, answer)) => {
                (self.connection, self.preferred) = (Some(connection), member);
                Ok(answer)
            }
            Err(failure) => {
                self.preferred = (self.preferred + 1) % self.members.len();
                Err(failure)
            }
        }
    }

    /// Asks for something that changes nothing.
    fn query(&mut self, path: &str, question: &Value) -> Result<Value, CoordinatorError> {
        let place = self.place.clone();
        self.ask(path, question).map_err(|failure| match failure {
            Failure::Refused(reason) => CoordinatorError::Refused { place, reason },
            Failure::NotSent(reason) | Failure::Lost(reason) => {
                CoordinatorError::Unavailable { place, reason }
            }
        })
    }

    fn key(&self, key: &str) -> String {
        STANDARD.encode(format!("{}{key}", self.prefix))
    }

    /// The range of all keys that begin like this one.
    fn range_of(&self, prefix: &str) -> Value {
        let from = format!("{}{prefix}", self.prefix).into_bytes();
        let mut end = from.clone();
        // The bytes of keys are below 128, so this is the first key behind them.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        json!({ "key": STANDARD.encode(from), "range_end": STANDARD.encode(end) })
    }

    /// Reads a key with its value.
    fn record(&self, pair: &Value) -> Result<(String, Record), CoordinatorError> {
        let read = || {
            let key = String::from_utf8(STANDARD.decode(pair["key"].as_str()?).ok()?).ok()?;
            let revision = number(&pair["mod_revision"])?;
            let bytes = STANDARD.decode(pair["value"].as_str().unwrap_or_default()).ok()?;
            let (stamp, value) = bytes.split_first_chunk::<16>()?;
            let key = key.strip_prefix(&self.prefix)?.to_owned();
            Some((key, Record { revision: Revision(revision), stamp: Stamp(*stamp), value: value.to_vec() }))
        };
        read().ok_or_else(|| CoordinatorError::Damaged {
            place: self.place.clone(),
            reason: format!(
                "a key below {} was not written by Tidemill; remove it, or choose another name",
                self.prefix
            ),
        })
    }

    fn last(&mut self) -> Result<Revision, CoordinatorError> {
        let mut question = self.range_of("");
        question["sort_target"] = "MOD".into();
        question["sort_order"] = "DESCEND".into();
        question["limit"] = 1.into();
        question["keys_only"] = true.into();
        let answer = self.query("/v3/kv/range", &question)?;
        Ok(Revision(number(&answer["kvs"][0]["mod_revision"]).unwrap_or(0)))
    }
}

impl Coordinator for Etcd {
    fn place(&self) -> &str {
        &self.place
    }

    fn read(&mut self, key: &str) -> Result<Option<Record>, CoordinatorError> {
        check(&self.place, key, &[])?;
        let question = json!({ "key": self.key(key) });
        let answer = self.query("/v3/kv/range", &question)?;
        match answer["kvs"].get(0) {
            Some(pair) => Ok(Some(self.record(pair)?.1)),
            None => Ok(None),
        }
    }

    fn list(&mut self, prefix: &str) -> Result<BTreeMap<String, Record>, CoordinatorError> {
        let question = self.range_of(prefix);
        let answer = self.query("/v3/kv/range", &question)?;
        let pairs = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        pairs.iter().map(|pair| self.record(pair)).collect()
    }

    fn compare_and_set(
        &mut self,
        key: &str,
        expected: Option<Revision>,
        stamp: Stamp,
        value: &[u8],
    ) -> Result<Revision, CoordinatorError> {
        check(&self.place, key, value)?;
        let name = self.key(key);
        let text = STANDARD.encode([&stamp.0[..], value].concat());
        let revision = expected.unwrap_or_default().0.to_string();
        let question = json!({
            // A key that does not exist has revision 0.
            "compare": [{ "key": name, "target": "MOD", "result": "EQUAL", "mod_revision": revision }],
            "success": [{ "request_put": { "key": name, "value": text } }],
            "failure": [{ "request_range": { "key": name } }],
        });
        let place = self.place.clone();
        let answer = self.ask("/v3/kv/txn", &question).map_err(|failure| match failure {
            Failure::Refused(reason) => CoordinatorError::Refused { place, reason },
            Failure::NotSent(reason) => CoordinatorError::Unavailable { place, reason },
            Failure::Lost(reason) => CoordinatorError::Unknown { place, key: key.to_owned(), reason },
        })?;
        if answer["succeeded"] == true {
            return number(&answer["header"]["revision"]).map(Revision).ok_or_else(|| {
                let reason = "etcd gave no revision; is this another program?".to_owned();
                CoordinatorError::Unknown { place: self.place.clone(), key: key.to_owned(), reason }
            });
        }
        let pair = answer["responses"][0]["response_range"]["kvs"].get(0);
        let found = pair.map(|pair| self.record(pair)).transpose()?.map(|(_, record)| record);
        match found {
            Some(record) if record.stamp == stamp => Ok(record.revision),
            found => Err(CoordinatorError::Stale {
                place: self.place.clone(),
                key: key.to_owned(),
                expected,
                found: found.map(Box::new),
            }),
        }
    }

    fn wait(&mut self, seen: Revision, at_most: Duration) -> Result<Revision, CoordinatorError> {
        let end = Instant::now() + at_most;
        let last = self.last()?;
        if last > seen || at_most.is_zero() {
            return Ok(last.max(seen));
        }
        let mut range = self.range_of("");
        range["start_revision"] = (seen.0 + 1).to_string().into();
        let question = json!({ "create_request": range });
        let (members, first, timeout) = (&self.members, self.preferred, self.timeout);
        let watched = self.runtime.block_on(async {
            // A connection of its own: an answer that does not end cannot be given up otherwise.
            let (mut connection, member) = connect_any(members, first, timeout).await?;
            let response = in_time(timeout, send(&mut connection, &members[member], "/v3/watch", &question));
            let mut body = response.await?.into_body();
            let left = end.saturating_duration_since(Instant::now());
            let changed = tokio::time::timeout(left, first_change(&mut body)).await;
            changed.unwrap_or(Ok(None))
        });
        match watched {
            Ok(Some(revision)) => Ok(Revision(revision).max(seen)),
            Ok(None) => Ok(self.last()?.max(seen)),
            Err(Failure::Refused(reason)) => {
                Err(CoordinatorError::Refused { place: self.place.clone(), reason })
            }
            Err(Failure::NotSent(reason) | Failure::Lost(reason)) => {
                Err(CoordinatorError::Unavailable { place: self.place.clone(), reason })
            }
        }
    }
}

/// Reads a watch up to its first events; returns the largest revision among them. `None`: etcd has ended the watch.
async fn first_change(body: &mut Incoming) -> Result<Option<u64>, Failure> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| lost(&error))?;
        text.extend_from_slice(frame.data_ref().map(|data| &data[..]).unwrap_or_default());
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            let events = message["result"]["events"].as_array().map(Vec::as_slice).unwrap_or_default();
            let newest = events.iter().filter_map(|event| number(&event["kv"]["mod_revision"])).max();
            if newest.is_some() || message["result"]["canceled"] == true {
                return Ok(newest);
            }
        }
        if text.len() > ANSWER_BYTES_MAX {
            return Err(Failure::Lost("the answer is too long".to_owned()));
        }
    }
    Ok(None)
}

/// Connects to the first member that answers, beginning with the preferred one.
async fn connect_any(
    members: &[Member],
    first: usize,
    timeout: Duration,
) -> Result<(SendRequest<Full<Bytes>>, usize), Failure> {
    let mut reasons = Vec::new();
    // All of them together within the time of one call.
    let each = timeout / members.len().max(1) as u32;
    for turn in 0..members.len() {
        let member = (first + turn) % members.len();
        match tokio::time::timeout(each, connect(&members[member])).await {
            Ok(Ok(connection)) => return Ok((connection, member)),
            Ok(Err(reason)) => reasons.push(reason),
            Err(_) => reasons.push(format!("no answer within {each:?}")),
        }
    }
    Err(Failure::NotSent(format!("cannot connect: {}; is etcd running?", reasons.join(", "))))
}

async fn connect(member: &Member) -> Result<SendRequest<Full<Bytes>>, String> {
    let host = member.host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, member.port)).await;
    let stream = stream.map_err(|error| format!("{}:{}: {error}", member.host, member.port))?;
    // Otherwise a short request waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // The connection hands its failure to the request that waits.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn send(
    connection: &mut SendRequest<Full<Bytes>>,
    member: &Member,
    path: &str,
    question: &Value,
) -> Result<Response<Incoming>, Failure> {
    connection
        .ready()
        .await
        .map_err(|error| Failure::NotSent(format!("the connection was lost: {error}")))?;
    let request = Request::post(path)
        .header(HOST, format!("{}:{}", member.host, member.port))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(question.to_string())));
    let request = request.map_err(|error| Failure::Refused(error.to_string()))?;
    connection.send_request(request).await.map_err(|error| lost(&error))
}

async fn whole(mut body: Incoming) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| lost(&error))?;
        bytes.extend_from_slice(frame.data_ref().map(|data| &data[..]).unwrap_or_default());
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(Failure::Lost("the answer is too long".to_owned()));
        }
    }
    Ok(bytes)
}

fn judge(status: StatusCode, answer: &[u8]) -> Result<Value, Failure> {
    let answer: Result<Value, _> = serde_json::from_slice(answer);
    match answer {
        Ok(answer) if status == StatusCode::OK => Ok(answer),
        answer => {
            let said = answer.ok().and_then(|answer| answer["error"].as_str().map(str::to_owned));
            let reason = format!("it answers {status}: {}", said.unwrap_or_else(|| "no JSON".to_owned()));
            // 404: a version of etcd without this gateway, or another program.
            let is_refused = matches!(status.as_u16(), 400 | 401 | 403 | 404 | 405);
            Err(if is_refused { Failure::Refused(reason) } else { Failure::Lost(reason) })
        }
    }
}

async fn in_time<T>(timeout: Duration, run: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, run).await {
        Ok(done) => done,
        Err(_) => Err(Failure::Lost(format!("no answer within {timeout:?}"))),
    }
}

fn lost(error: &hyper::Error) -> Failure {
    Failure::Lost(format!("the connection was lost: {error}"))
}

/// Reads a number, which etcd writes as a text because it may have 64 bits.
fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
