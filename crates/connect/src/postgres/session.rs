//! A connection and the operations on it.

use bytes::Bytes;
use futures_util::SinkExt;
use tidemill_core::Cause;
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

use super::database::Database;
use super::failure::Failure;
use super::statements::{CREATE_COMMITS, SETTINGS, Statements, quoted};
use super::tls::MakeTls;
use crate::dead_letter::DeadLetter;

/// What the database has recorded about a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordedCommit {
    /// The run that may write.
    pub run: i64,
    /// The last cycle that is committed.
    pub cycle: Option<i64>,
}

/// An open connection.
pub(super) struct Session {
    client: Client,
    connection: JoinHandle<()>,
    /// Set once there is a table to write to.
    copy: Option<Statement>,
}

impl Drop for Session {
    /// Closes the connection even if the server does not answer.
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Session {
    pub async fn connect(database: &Database) -> Result<Session, Error> {
        let (client, connection) = database.config.connect(MakeTls(database.tls.clone())).await?;
        let connection = tokio::spawn(async move {
            // Threads that wait for an answer are told.
            let _ = connection.await;
        });
        let session = Session { client, connection, copy: None };
        session.client.batch_execute(SETTINGS).await?;
        Ok(session)
    }

    /// Creates missing tables; returns the columns of the table for the rows.
    pub async fn tables(&self, statements: &Statements, create: bool) -> Result<Vec<(String, Type)>, Error> {
        self.create_absent(&statements.exists(&quoted("tidemill_commits")), CREATE_COMMITS).await?;
        if create {
            self.create_absent(&statements.exists(&statements.table), statements.create_table()).await?;
        }
        let described = self.client.prepare(&statements.describe()).await?;
        let columns = described.columns().iter();
        Ok(columns.map(|column| (column.name().to_owned(), column.type_().clone())).collect())
    }

    /// Checks first, because a user who may not create tables can use existing ones. Two sinks may do it at the same
    /// time.
    pub async fn create_absent(&self, exists: &str, create: &str) -> Result<(), Error> {
        if self.client.query_one(exists, &[]).await?.get(0) {
            return Ok(());
        }
        match self.client.batch_execute(create).await {
            Err(_) if self.client.query_one(exists, &[]).await?.get(0) => Ok(()),
            created => created,
        }
    }

    /// What a statement that returns one truth value says.
    pub async fn is_true(&self, query: &str) -> Result<bool, Error> {
        Ok(self.client.query_one(query, &[]).await?.get(0))
    }

    /// Prepares for writing rows.
    pub async fn prepare(&mut self, statements: &Statements) -> Result<(), Error> {
        if let (Some(create), Some(upsert)) = (statements.create_gathered(), statements.upsert()) {
            self.client.batch_execute(&create).await?;
            // Reports now, and not at the first row, if the table has no such key.
            self.client.simple_query(&format!("EXPLAIN {upsert}")).await?;
        }
        self.copy = Some(self.client.prepare(&statements.copy()).await?);
        Ok(())
    }

    /// Returns what is recorded, with a statement that returns both values.
    pub async fn noted(&self, query: &str) -> Result<Option<RecordedCommit>, Error> {
        let row = self.client.query_opt(query, &[]).await?;
        Ok(row.map(|row| RecordedCommit { run: row.get(0), cycle: row.get(1) }))
    }

    /// Begins a transaction; returns whether this run may write.
    pub async fn begin(&self, begin: &str) -> Result<bool, Failure> {
        let answers = self.client.simple_query(begin).await?;
        let updated = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        });
        Ok(updated.last() == Some(1))
    }

    /// Sends rows. `progress` is called for each step, so that a stalled server is noticed.
    pub async fn copy(&self, rows: &[Bytes], mut progress: impl FnMut()) -> Result<(), Failure> {
        let Some(copy) = &self.copy else {
            return Err(Failure::Final(Cause::bug("rows for a session that is not prepared")));
        };
        let sink = self.client.copy_in(copy).await?;
        let mut sink = std::pin::pin!(sink);
        for chunk in rows {
            sink.send(chunk.clone()).await?;
            progress();
        }
        sink.finish().await?;
        progress();
        Ok(())
    }

    /// Inserts refused rows into their table.
    pub async fn insert_letters(&self, insert: &str, letters: &[DeadLetter]) -> Result<(), Failure> {
        let cycles: Vec<i64> = letters.iter().map(|letter| letter.cycle as i64).collect();
        let positions: Vec<i64> = letters.iter().map(|letter| i64::from(letter.position)).collect();
        let reasons: Vec<&str> = letters.iter().map(|letter| letter.reason.as_str()).collect();
        let rows: Vec<&str> = letters.iter().map(|letter| letter.row.as_str()).collect();
        self.client.execute(insert, &[&cycles, &positions, &reasons, &rows]).await?;
        Ok(())
    }

    pub async fn execute(&self, statement: &str) -> Result<(), Failure> {
        Ok(self.client.batch_execute(statement).await?)
    }
}
