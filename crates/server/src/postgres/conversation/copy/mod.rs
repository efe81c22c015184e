//! Carries out copies.

pub(super) mod binary;
pub(super) mod end_mark;
pub(super) mod format;
pub(super) mod statement;
pub(super) mod text;

use std::collections::VecDeque;
use std::sync::Arc;

use tidemill_connect::memory::{PushTarget, Pushed};
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::{RecordBatch, new_null_array};
use tidemill_engine::arrow::schema::{Schema, SchemaRef};
use tidemill_service::chosen_columns;
use tidemill_sql::{ClientTable, Statement};

use self::format::{CopyDecoder, CopyFormat};
use self::statement::CopyStatement;
use super::answer::Answer;
use super::inserted_rows::InsertedRows;
use super::table_columns::named_columns;
use super::{Conversation, Result, Stop};
use crate::postgres::wire::{Request, TransactionStatus};
use crate::report::{BAD_COPY_FORMAT, PROTOCOL_VIOLATION, QUERY_CANCELED, Report, WRONG_OBJECT_TYPE};

/// Bytes of a copy that are looked at together: one that is not longer takes in all of its rows or none.
const PIECE_BYTES: usize = 1 << 20;

/// The most errors that are reported of a copy that leaves them out.
const TOLD_MAX: usize = 8;

impl Conversation<'_> {
    pub(super) fn copy(&mut self, statement: &CopyStatement) -> Result<Answer> {
        let rows = match statement {
            CopyStatement::Out { query, format } => self.copy_out(query, format)?,
            CopyStatement::In { source, columns, format } => {
                self.copy_in(source, columns.as_deref(), format)?
            }
        };
        Ok(Answer::Done(format!("COPY {rows}")))
    }

    fn copy_out(&mut self, query: &Statement, format: &CopyFormat) -> Result<u64> {
        let mut rows = match self.execute_statement(query)? {
            Answer::Rows(rows) => rows,
            _ => {
                return Err(
                    Report::error(WRONG_OBJECT_TYPE, "only a query has rows that can be copied").into()
                );
            }
        };
        let columns = rows.columns(&[format.is_binary().into()])?.to_vec();
        self.writer.copy_out(columns.len(), format.is_binary())?;
        let mut bytes = Vec::new();
        format.write_begin(&columns, &mut bytes);
        let mut copied = 0;
        loop {
            while let Some(batch) = rows.take(0) {
                for row in 0..batch.num_rows() {
                    format.write_row(&columns, &batch, row, &mut bytes);
                    self.writer.copy_data(&bytes)?;
                    bytes.clear();
                }
                copied += batch.num_rows() as u64;
            }
            if rows.is_over() {
                self.tell_of_missing_rows(&mut rows)?;
                break;
            }
            self.look_at_client(&mut rows)?;
            rows.advance()?;
        }
        format.write_end(&mut bytes);
        if !bytes.is_empty() {
            self.writer.copy_data(&bytes)?;
        }
        self.writer.copy_done()?;
        Ok(copied)
    }

    fn copy_in(&mut self, source: &str, columns: Option<&[String]>, format: &CopyFormat) -> Result<u64> {
        if let Some(table) = self.session.client_table(source) {
            return self.copy_into_table(&table, columns, format);
        }
        let intake = self.intake(source, columns, format)?;
        self.writer.copy_in(intake.given.fields().len(), format.is_binary())?;
        self.writer.flush()?;
        let before = self.inserted.len();
        let taken = self.take_copied(intake);
        if taken.is_err() {
            self.inserted.truncate(before);
        }
        let (rows, left_out, _) = taken?;
        self.tell_of_left_out(&left_out)?;
        Ok(rows)
    }

    /// Copies into a table: all rows, or none.
    fn copy_into_table(
        &mut self,
        table: &ClientTable,
        columns: Option<&[String]>,
        format: &CopyFormat,
    ) -> Result<u64> {
        let places = named_columns(table, columns)?;
        let given = table.shape.columns.project(&places).map_err(|error| Report::bug(error.to_string()))?;
        // What is missing is told for the table, as an INSERT tells it.
        let fields = given.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let given = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let intake = RowPush::new(None, &given, format, &table.name)?;
        self.writer.copy_in(given.fields().len(), format.is_binary())?;
        self.writer.flush()?;
        let (_, left_out, batches) = self.take_copied(intake)?;
        self.session.set_lock_timeout(self.settings.lock_timeout());
        let rows = self.session.add_to_table(table, &batches, &places).map_err(Report::from)?;
        self.tell_of_left_out(&left_out)?;
        Ok(rows as u64)
    }

    fn tell_of_left_out(&mut self, left_out: &LeftOut) -> Result<()> {
        for error in left_out.samples.iter().take(TOLD_MAX) {
            self.writer.report(&Report::warning(BAD_COPY_FORMAT, error.clone()))?;
        }
        if left_out.count > 0 {
            let message = format!("{} lines are wrong and were left out", left_out.count);
            self.writer.report(&Report::warning(BAD_COPY_FORMAT, message))?;
        }
        Ok(())
    }

    /// Takes in what the client copies. In a transaction, it waits until that is committed.
    fn take_copied(&mut self, mut intake: RowPush) -> Result<(u64, LeftOut, Vec<RecordBatch>)> {
        let (inbox, goes_on) = (self.inbox, self.goes_on());
        let mut waiting = (self.transaction == TransactionStatus::Open).then_some(&mut self.inserted);
        loop {
            let request = match inbox.take() {
                Ok(Some(request)) => request,
                Ok(None) => return Err(Stop::Gone),
                Err(error) => return Err(Stop::Report(Box::new(Report::from(&error)))),
            };
            match request {
                Request::CopyData(bytes) => intake.take(&bytes, waiting.as_deref_mut(), &goes_on)?,
                Request::CopyDone => break,
                Request::CopyFail(why) => {
                    let message = format!("the client cancelled the copy: {why}{}", intake.so_far());
                    return Err(Report::error(QUERY_CANCELED, message).into());
                }
                Request::Flush | Request::Sync => {}
                _ => {
                    let message = "the client sent something else in the middle of a copy";
                    return Err(Report::fatal(PROTOCOL_VIOLATION, message).into());
                }
            }
            if !goes_on() {
                let message = format!("the copy was cancelled{}", intake.so_far());
                return Err(Report::error(QUERY_CANCELED, message).into());
            }
        }
        Ok(intake.end(waiting, &goes_on)?)
    }

    fn intake(
        &self,
        source: &str,
        columns: Option<&[String]>,
        format: &CopyFormat,
    ) -> std::result::Result<RowPush, Report> {
        let target = self.session.push_target(source, "copied")?;
        let all = Arc::clone(target.schema());
        let given = match columns {
            None => all,
            Some(columns) => Arc::new(
                all.project(&chosen_columns(&all, columns, "the copy")?)
                    .map_err(|error| Report::bug(error.to_string()))?,
            ),
        };
        RowPush::new(Some(target), &given, format, source)
    }
}

/// Lines that were wrong.
#[derive(Default)]
struct LeftOut {
    count: u64,
    samples: Vec<String>,
}

/// Rows on their way into a source.
struct RowPush {
    /// `None`: they are for a table, and are kept until all are here.
    target: Option<PushTarget>,
    kept: Vec<RecordBatch>,
    decoder: CopyDecoder,
    /// The columns of the copy.
    given: SchemaRef,
    /// Bytes that were not looked at yet.
    waiting: Vec<u8>,
    leaves_out_errors: bool,
    rows: u64,
    /// Those that do not wait for the end of a transaction.
    rows_pushed: u64,
    left_out: LeftOut,
    pushed: Option<Pushed>,
}

impl RowPush {
    fn new(
        target: Option<PushTarget>,
        given: &SchemaRef,
        format: &CopyFormat,
        name: &str,
    ) -> std::result::Result<RowPush, Report> {
        let mut decoder = format.decoder(given).map_err(Report::from)?;
        decoder.begin(&format!("COPY {name}"));
        Ok(RowPush {
            target,
            kept: Vec::new(),
            decoder,
            given: Arc::clone(given),
            waiting: Vec::new(),
            leaves_out_errors: format.leaves_out_errors,
            rows: 0,
            rows_pushed: 0,
            left_out: LeftOut::default(),
            pushed: None,
        })
    }

    fn take(
        &mut self,
        bytes: &[u8],
        inserted: Option<&mut InsertedRows>,
        goes_on: &dyn Fn() -> bool,
    ) -> std::result::Result<(), Report> {
        self.waiting.extend(bytes);
        if self.waiting.len() >= PIECE_BYTES { self.look(false, inserted, goes_on) } else { Ok(()) }
    }

    /// Takes in what waits, or adds it to the rows of a transaction. If it has an error that is not left out, nothing of it.
    fn look(
        &mut self,
        is_last: bool,
        mut inserted: Option<&mut InsertedRows>,
        goes_on: &dyn Fn() -> bool,
    ) -> std::result::Result<(), Report> {
        let mut batches = VecDeque::new();
        let waiting = std::mem::take(&mut self.waiting);
        self.decoder.decode(&waiting, &mut batches).map_err(|cause| self.bad(cause))?;
        if is_last {
            self.decoder.finish(&mut batches).map_err(|cause| self.bad(cause))?;
        }
        let faults = self.decoder.faults();
        if let Some(first) = faults.samples.first().filter(|_| !self.leaves_out_errors) {
            let report = Report::error(BAD_COPY_FORMAT, format!("{first}{}", self.so_far()));
            return Err(
                report.with_hint("correct the line, or leave out what is wrong: WITH (ON_ERROR ignore)")
            );
        }
        self.left_out.count += faults.count;
        let room = TOLD_MAX.saturating_sub(self.left_out.samples.len());
        self.left_out.samples.extend(faults.samples.into_iter().take(room));
        for batch in batches {
            let rows = batch.num_rows() as u64;
            let Some(target) = self.target.clone() else {
                self.kept.push(batch);
                self.rows += rows;
                continue;
            };
            let batch = completed(&batch, &target)?;
            match &mut inserted {
                Some(inserted) => inserted.add(target, batch)?,
                None => {
                    let pushed = target.push(&batch, goes_on).map_err(|cause| self.failed(cause))?;
                    self.pushed = Some(pushed);
                    self.rows_pushed += rows;
                }
            }
            self.rows += rows;
        }
        Ok(())
    }

    /// Takes in the rest, and waits until everything is safe.
    fn end(
        mut self,
        inserted: Option<&mut InsertedRows>,
        goes_on: &dyn Fn() -> bool,
    ) -> std::result::Result<(u64, LeftOut, Vec<RecordBatch>), Report> {
        self.look(true, inserted, goes_on)?;
        if let Some(pushed) = self.pushed.take() {
            pushed.settle(goes_on).map_err(|cause| self.failed(cause))?;
        }
        Ok((self.rows, self.left_out, self.kept))
    }

    fn failed(&self, cause: Cause) -> Report {
        let report = Report::from(cause);
        Report { message: format!("{}{}", report.message, self.so_far()), ..report }
    }

    fn bad(&self, cause: Cause) -> Report {
        Report { code: BAD_COPY_FORMAT, ..self.failed(cause) }
    }

    /// What the source has already, for messages.
    fn so_far(&self) -> String {
        match self.rows_pushed {
            0 => "; no row was taken in".to_owned(),
            rows => format!("; the first {rows} rows have been taken in"),
        }
    }
}

/// The rows with all columns of the source.
fn completed(batch: &RecordBatch, target: &PushTarget) -> std::result::Result<RecordBatch, Report> {
    let columns = target.schema().fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), batch.num_rows()),
    });
    let completed = RecordBatch::try_new(Arc::clone(target.schema()), columns.collect());
    completed.map_err(|error| Report::bug(error.to_string()))
}
