//! Answers, as the server gives them and as a loop over all reports finds them.

use std::time::SystemTime;

use anyhow::{Context, ensure};
use tokio_postgres::Row;

use crate::questions::{Kind, Question};
use crate::reports::{LANES, Report, balance_of, paid_on, report};

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// In the order of their numbers.
    Reports(Vec<Report>),
    /// How many, and their mean speed.
    Statistics(i64, Option<f64>),
    Amount(Option<i64>),
    /// Reports by the names of their lanes.
    Counts(Vec<(String, i64)>),
    /// The squares of the distances of the nearest reports: of several at the same distance, any may be given.
    Distances(Vec<u64>),
}

/// The answer in these rows. Each report in it must be one that was sent.
pub fn answer_of(question: &Question, rows: &[Row], cars: u64) -> anyhow::Result<Answer> {
    Ok(match question.kind {
        Kind::StatisticsOfSegment => {
            let row = rows.first().context("no statistics")?;
            Answer::Statistics(row.try_get(0)?, row.try_get(1)?)
        }
        Kind::Balance | Kind::Expenditures => {
            ensure!(rows.len() < 2, "an account has {} rows", rows.len());
            Answer::Amount(rows.first().map(|row| row.try_get(0)).transpose()?)
        }
        Kind::JoinWithFile => {
            let count = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
            Answer::Counts(rows.iter().map(count).collect::<anyhow::Result<_>>()?)
        }
        Kind::Nearest => {
            let reports = reports_of(rows, cars)?;
            Answer::Distances(distances(question, reports.iter()))
        }
        Kind::LastPosition | Kind::CarsInBox | Kind::PathOfCar | Kind::AccidentAhead | Kind::PathAsOf => {
            let mut reports = reports_of(rows, cars)?;
            reports.sort_unstable();
            Answer::Reports(reports)
        }
    })
}

fn reports_of(rows: &[Row], cars: u64) -> anyhow::Result<Vec<Report>> {
    let read = |row: &Row| {
        let at: SystemTime = row.try_get(1)?;
        let number = u64::try_from(at.duration_since(SystemTime::UNIX_EPOCH)?.as_micros())?;
        let integer =
            |column: usize| Ok::<u64, anyhow::Error>(u64::try_from(row.try_get::<_, i64>(column)?)?);
        let float = |column: usize| Ok::<u64, anyhow::Error>(row.try_get::<_, f64>(column)? as u64);
        let found = Report {
            number,
            vid: integer(0)?,
            x: float(2)?,
            y: float(3)?,
            speed: float(4)?,
            lane: integer(5)?,
        };
        ensure!(found == report(cars, number), "nobody has sent {found:?}");
        Ok(found)
    };
    rows.iter().map(read).collect()
}

fn distances<'a>(question: &Question, reports: impl Iterator<Item = &'a Report>) -> Vec<u64> {
    let (x, y) = (question.x.0, question.y.0);
    let mut all: Vec<u64> =
        reports.map(|report| report.x.abs_diff(x).pow(2) + report.y.abs_diff(y).pow(2)).collect();
    all.sort_unstable();
    all.truncate(5);
    all
}

/// The answer over these reports, found by looking at each of them.
pub fn expected(question: &Question, reports: &[Report]) -> Answer {
    let of_car = || reports.iter().filter(|report| report.vid == question.vid);
    let later = || reports.iter().filter(|report| report.number > question.after);
    let in_box = || {
        later().filter(|report| {
            (question.x.0..=question.x.1).contains(&report.x)
                && (question.y.0..=question.y.1).contains(&report.y)
        })
    };
    match question.kind {
        Kind::LastPosition => Answer::Reports(of_car().next_back().copied().into_iter().collect()),
        Kind::CarsInBox | Kind::AccidentAhead => Answer::Reports(in_box().copied().collect()),
        Kind::PathOfCar | Kind::PathAsOf => {
            Answer::Reports(later().filter(|report| report.vid == question.vid).copied().collect())
        }
        Kind::StatisticsOfSegment => {
            let (count, sum) = (in_box().count() as i64, in_box().map(|report| report.speed).sum::<u64>());
            Answer::Statistics(count, (count > 0).then(|| sum as f64 / count as f64))
        }
        Kind::Balance => Answer::Amount(Some(balance_of(question.vid) as i64)),
        Kind::Expenditures => Answer::Amount(Some(paid_on(question.vid, question.day) as i64)),
        Kind::JoinWithFile => {
            let count = |lane: u64| in_box().filter(|report| report.lane == lane).count() as i64;
            let counts = (0..LANES).map(|lane| (format!("lane {lane}"), count(lane)));
            Answer::Counts(counts.filter(|(_, count)| *count > 0).collect())
        }
        Kind::Nearest => Answer::Distances(distances(question, reports.iter())),
    }
}
