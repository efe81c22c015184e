//! Each question is answered like a loop over all rows.

use std::time::SystemTime;

use anyhow::{Context, ensure};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::answers::{Answer, answer_of, expected};
use crate::questions::{KINDS, Kind, Parameter, Question};
use crate::reports::{Report, report};

/// How often each car has reported when the answers are checked.
pub const TURNS: u64 = 30;
const QUESTIONS: u64 = 12;

/// Asks without preparing.
pub async fn ask(client: &Client, question: &Question) -> Result<Vec<Row>, tokio_postgres::Error> {
    let parameters = question.parameters();
    let typed: Vec<(&(dyn ToSql + Sync), Type)> =
        parameters.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect();
    client.query_typed(&question.text(), &typed).await
}

/// Asks a prepared statement.
pub async fn ask_prepared(
    client: &Client,
    statement: &tokio_postgres::Statement,
    question: &Question,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let parameters: Vec<Parameter> = question.parameters().into_iter().map(|(value, _)| value).collect();
    let values: Vec<&(dyn ToSql + Sync)> =
        parameters.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    client.query(statement, &values).await
}

/// Asks questions of all kinds over this many reports, which the views have.
pub async fn check(client: &Client, cars: u64, sent: u64) -> anyhow::Result<()> {
    let all: Vec<Report> = (0..sent).map(|number| report(cars, number)).collect();
    let (oldest, newest) = cycles(client).await?;
    let mut has_rows = false;
    for (kind, name) in KINDS {
        for number in 0..QUESTIONS {
            let mut question = Question::new(kind, number, sent, cars);
            let mut reports = all.as_slice();
            if kind == Kind::PathAsOf {
                // Half of them are of the last cycles, of which more have reports.
                question.cycle = newest - number * (newest - oldest) / QUESTIONS;
                reports = &all[..reports_of_cycle(client, question.cycle).await?];
                question.after = (reports.len() as u64).saturating_sub(20 * cars + 1);
            }
            let found = answer_of(&question, &ask(client, &question).await?, cars)?;
            let right = expected(&question, reports);
            ensure!(found == right, "{name}: {question:?}: {found:?} is not {right:?}");
            let again = answer_of(&question, &ask(client, &question).await?, cars)?;
            ensure!(found == again, "{name}: another answer at the second time");
            has_rows |= kind == Kind::CarsInBox && right != Answer::Reports(Vec::new());
        }
    }
    ensure!(has_rows, "the input has no cars in the boxes");
    Ok(())
}

/// The cycles of which all reports can be read.
pub async fn cycles(client: &Client) -> anyhow::Result<(u64, u64)> {
    let messages = client.simple_query("SHOW FRAGMENTS").await?;
    for message in &messages {
        let tokio_postgres::SimpleQueryMessage::Row(row) = message else { continue };
        if row.get(0) == Some("recent") {
            let number = |column: usize| row.get(column).and_then(|text| text.parse().ok());
            return number(6).zip(number(7)).context("the view has no cycles");
        }
    }
    anyhow::bail!("there is no view of reports")
}

/// How many reports had come by the end of a cycle. They come in order, so these are the first ones.
async fn reports_of_cycle(client: &Client, cycle: u64) -> anyhow::Result<usize> {
    let text = format!("SELECT count(*) AS reports, max(at) AS latest FROM recent AS OF CYCLE {cycle}");
    let row = client.query_one(&text, &[]).await?;
    let (count, latest): (i64, Option<SystemTime>) = (row.try_get(0)?, row.try_get(1)?);
    let micros = latest
        .map_or(Ok(0), |at| at.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_micros() + 1));
    ensure!(count as u128 == micros?, "cycle {cycle} has {count} reports up to {latest:?}");
    Ok(count as usize)
}
