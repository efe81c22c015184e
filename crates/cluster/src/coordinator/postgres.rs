//! Records in a table of PostgreSQL.
//!
//! All changes of a cluster take the lock of its row in `tidemill_clusters`, which counts them. So revisions are given in the
//! order of commits: a watcher that has seen one has seen all before it, which a sequence would not promise. A change is one
//! transaction in one message, so a node that stops in the middle holds no lock.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

use super::checks::{check, check_loopback};
use super::{Coordinator, CoordinatorError, Record, Revision, Stamp};

/// Someone else may create them at the same time: that one statement of two fails is not an error, if both exist then.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS tidemill_clusters (cluster text PRIMARY KEY, revision bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS tidemill_cluster_records (
        cluster text NOT NULL, key text NOT NULL, revision bigint NOT NULL, stamp bytea NOT NULL, value bytea NOT NULL,
        PRIMARY KEY (cluster, key))";
const ARE_THERE: &str = "
    SELECT to_regclass('tidemill_clusters') IS NOT NULL AND to_regclass('tidemill_cluster_records') IS NOT NULL";
/// Proxies that share connections swallow notifications.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Postgres {
    place: String,
    cluster: String,
    config: Config,
    timeout: Duration,
    runtime: Runtime,
    session: Option<Session>,
}

struct Session {
    client: Client,
    connection: JoinHandle<()>,
    /// Woken by each notification.
    changed: Arc<Notify>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// The end of a request that was not answered.
enum Failure {
    /// It was not sent.
    NotSent(String),
    /// It was sent, and what happened to it is not known.
    Lost(String),
    /// It was rolled back, and may succeed later.
    RolledBack(String),
    /// It was rolled back, and trying again would not help.
    Refused(String),
}

impl Postgres {
    pub fn new(address: &str, cluster: &str, timeout: Duration) -> Result<Postgres, CoordinatorError> {
        let refused = |place: &str, reason: String| CoordinatorError::Refused { place: place.into(), reason };
        let mut config: Config = address.parse().map_err(|error: tokio_postgres::Error| {
            let reason = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            refused(
                "postgres",
                format!("the address cannot be read: {reason}; write postgres://USER@HOST/DATABASE"),
            )
        })?;
        let hosts: Vec<String> = config.get_hosts().iter().map(host_text).collect();
        let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
        let database = config.get_dbname().unwrap_or_default();
        let place = format!("postgres://{}:{}/{database}", hosts.join(","), ports.join(","));
        for host in config.get_hosts() {
            if let Host::Tcp(host) = host {
                check_loopback(&place, host)?;
            }
        }
        if config.get_ssl_mode() == SslMode::Require {
            let reason =
                "connections to coordinators are not encrypted yet; leave out sslmode=require".to_owned();
            return Err(refused(&place, reason));
        }
        config.connect_timeout(timeout).application_name("tidemill cluster");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| refused(&place, format!("no event loop can be made: {error}")))?;
        let cluster = cluster.to_owned();
        Ok(Postgres { place, cluster, config, timeout, runtime, session: None })
    }

    /// Runs statements and returns their rows. If that fails, the next call connects again.
    fn ask(&mut self, statements: &str) -> Result<Vec<SimpleQueryRow>, Failure> {
        let session = self.session.take().filter(|session| !session.client.is_closed());
        let (config, cluster, timeout) = (&self.config, &self.cluster, self.timeout);
        let done = self.runtime.block_on(async {
            let session = match session {
                Some(session) => session,
                None => {
                    in_time(timeout, Session::connect(config, cluster, timeout), Failure::NotSent).await?
                }
            };
            let answers = async { session.client.simple_query(statements).await.map_err(failure) };
            let answers = in_time(timeout, answers, Failure::Lost).await?;
            let rows = answers.into_iter().filter_map(|answer| match answer {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            });
            Ok((session, rows.collect()))
        });
        let (session, rows) = done?;
        self.session = Some(session);
        Ok(rows)
    }

    /// Runs statements that change nothing.
    fn query(&mut self, statements: &str) -> Result<Vec<SimpleQueryRow>, CoordinatorError> {
        let place = self.place.clone();
        self.ask(statements).map_err(|failure| match failure {
            Failure::Refused(reason) => CoordinatorError::Refused { place, reason },
            Failure::NotSent(reason) | Failure::Lost(reason) | Failure::RolledBack(reason) => {
                CoordinatorError::Unavailable { place, reason }
            }
        })
    }

    fn record(&self, row: &SimpleQueryRow) -> Result<(String, Record), CoordinatorError> {
        let text = |column: usize| row.get(column).unwrap_or_default();
        let stamp = from_hex(text(2)).and_then(|stamp| stamp.try_into().ok());
        match (text(1).parse(), stamp, from_hex(text(3))) {
            (Ok(revision), Some(stamp), Some(value)) => {
                let record = Record { revision: Revision(revision), stamp: Stamp(stamp), value };
                Ok((text(0).to_owned(), record))
            }
            _ => Err(CoordinatorError::Damaged {
                place: self.place.clone(),
                reason: format!("the row of '{}' in tidemill_cluster_records is not one of ours", text(0)),
            }),
        }
    }

    fn last(&mut self) -> Result<Revision, CoordinatorError> {
        let query = format!("SELECT revision FROM tidemill_clusters WHERE cluster = '{}'", self.cluster);
        let rows = self.query(&query)?;
        let revision = rows.first().and_then(|row| row.get(0)?.parse().ok());
        Ok(Revision(revision.unwrap_or(0)))
    }
}

impl Session {
    async fn connect(config: &Config, cluster: &str, timeout: Duration) -> Result<Session, Failure> {
        let not_sent = |error: tokio_postgres::Error| match failure(error) {
            Failure::Lost(reason) | Failure::RolledBack(reason) => Failure::NotSent(reason),
            other => other,
        };
        let (client, mut connection) = config.connect(NoTls).await.map_err(not_sent)?;
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let connection = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message {
                    notify.notify_one();
                }
            }
            // Who waits looks again, and finds the connection closed.
            notify.notify_one();
        });
        let session = Session { client, connection, changed };
        let ms = timeout.as_millis();
        let settings = format!(
            "SET statement_timeout = {ms}; SET lock_timeout = {ms}; SET idle_in_transaction_session_timeout = {ms}; \
             SET client_min_messages = warning"
        );
        session.client.batch_execute(&settings).await.map_err(not_sent)?;
        let created = session.client.batch_execute(TABLES).await;
        if let Err(error) = created {
            let rows = session.client.simple_query(ARE_THERE).await.map_err(not_sent)?;
            let are_there =
                rows.iter().any(|row| matches!(row, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")));
            if !are_there {
                return Err(not_sent(error));
            }
        }
        let begin = format!(
            "INSERT INTO tidemill_clusters VALUES ('{cluster}', 0) ON CONFLICT DO NOTHING; LISTEN tidemill_clusters"
        );
        session.client.batch_execute(&begin).await.map_err(not_sent)?;
        Ok(session)
    }
}

impl Coordinator for Postgres {
    fn place(&self) -> &str {
        &self.place
    }

    fn read(&mut self, key: &str) -> Result<Option<Record>, CoordinatorError> {
        check(&self.place, key, &[])?;
        let rows = self.query(&format!("{} {}", records(&self.cluster), of_key(key)))?;
        rows.first().map(|row| Ok(self.record(row)?.1)).transpose()
    }

    fn list(&mut self, prefix: &str) -> Result<BTreeMap<String, Record>, CoordinatorError> {
        if !prefix.is_empty() {
            check(&self.place, prefix, &[])?;
        }
        let rows = self.query(&format!("{} AND starts_with(key, '{prefix}')", records(&self.cluster)))?;
        rows.iter().map(|row| self.record(row)).collect()
    }

    fn compare_and_set(
        &mut self,
        key: &str,
        expected: Option<Revision>,
        stamp: Stamp,
        value: &[u8],
    ) -> Result<Revision, CoordinatorError> {
        check(&self.place, key, value)?;
        let cluster = self.cluster.clone();
        let (mark, text) = (to_hex(&stamp.0), to_hex(value));
        let new = format!("SELECT revision FROM tidemill_clusters WHERE cluster = '{cluster}'");
        let change = match expected {
            Some(Revision(expected)) => format!(
                "UPDATE tidemill_cluster_records SET revision = ({new}), stamp = '\\x{mark}', value = '\\x{text}' \
                 WHERE cluster = '{cluster}' AND key = '{key}' AND revision = {expected}"
            ),
            None => format!(
                "INSERT INTO tidemill_cluster_records \
                 VALUES ('{cluster}', '{key}', ({new}), '\\x{mark}', '\\x{text}') ON CONFLICT DO NOTHING"
            ),
        };
        // The first statement waits for all changes before this one; those behind it see their results.
        let transaction = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; \
             UPDATE tidemill_clusters SET revision = revision + 1 WHERE cluster = '{cluster}'; {change}; \
             {} {}; NOTIFY tidemill_clusters; COMMIT",
            records(&cluster),
            of_key(key)
        );
        let place = self.place.clone();
        let key = key.to_owned();
        let rows = self.ask(&transaction).map_err(|failure| match failure {
            Failure::Refused(reason) => CoordinatorError::Refused { place, reason },
            Failure::NotSent(reason) | Failure::RolledBack(reason) => {
                CoordinatorError::Unavailable { place, reason }
            }
            Failure::Lost(reason) => CoordinatorError::Unknown { place, key: key.clone(), reason },
        })?;
        let found = rows.first().map(|row| self.record(row)).transpose()?;
        match found {
            Some((_, record)) if record.stamp == stamp => Ok(record.revision),
            found => Err(CoordinatorError::Stale {
                place: self.place.clone(),
                key,
                expected,
                found: found.map(|(_, record)| Box::new(record)),
            }),
        }
    }

    fn wait(&mut self, seen: Revision, at_most: Duration) -> Result<Revision, CoordinatorError> {
        let end = Instant::now() + at_most;
        loop {
            let last = self.last()?;
            let left = end.saturating_duration_since(Instant::now());
            if last > seen || left.is_zero() {
                return Ok(last.max(seen));
            }
            if let Some(session) = &self.session {
                let changed = session.changed.notified();
                let _ = self
                    .runtime
                    .block_on(async { tokio::time::timeout(left.min(LOOK_EVERY), changed).await });
            }
        }
    }
}

async fn in_time<T>(
    timeout: Duration,
    run: impl Future<Output = Result<T, Failure>>,
    late: fn(String) -> Failure,
) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, run).await {
        Ok(done) => done,
        Err(_) => Err(late(format!("no answer within {timeout:?}"))),
    }
}

fn records(cluster: &str) -> String {
    format!(
        "SELECT key, revision, encode(stamp, 'hex'), encode(value, 'hex') FROM tidemill_cluster_records \
         WHERE cluster = '{cluster}'"
    )
}

fn of_key(key: &str) -> String {
    format!("AND key = '{key}'")
}

fn host_text(host: &Host) -> String {
    match host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

fn failure(error: tokio_postgres::Error) -> Failure {
    let Some(database) = error.as_db_error() else {
        let reason = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        return Failure::Lost(reason);
    };
    let code = database.code().code();
    let reason = format!("{} (SQLSTATE {code})", database.message());
    match code.get(..2).unwrap_or_default() {
        // It waited too long for a lock, or for others in its place.
        "55" | "40" | "53" => Failure::RolledBack(reason),
        // The server or the connection ends; a commit may be through.
        "08" | "57" | "58" => Failure::Lost(reason),
        _ => Failure::Refused(reason),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
