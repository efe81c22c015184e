//! Each question answers like a loop over all rows.

use anyhow::ensure;
use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::{Float64Type, Int64Type};
use tidemill_store::distance;

use crate::accounts::{Accounts, balance_of, paid_on};
use crate::questions::{KINDS, Kind, Question};
use crate::rows::{Report, Traffic, config};
use crate::writer::Writer;

const CARS: u64 = 2000;
const CYCLES: u64 = 200;
const CYCLE_ROWS: u64 = 700;

pub fn check(fragments: u32) -> anyhow::Result<()> {
    let (mut writer, reader) = Writer::new(config(1 << 30), fragments)?;
    let (mut traffic, accounts) = (Traffic::new(CARS), Accounts::new(CARS)?);
    for cycle in 0..CYCLES {
        writer.append(cycle, traffic.rows(CYCLE_ROWS as usize))?;
    }
    writer.publish()?;
    let all: Vec<Report> = (0..CYCLES * CYCLE_ROWS).map(|number| Traffic::report(CARS, number)).collect();
    for (kind, name) in KINDS {
        for number in 0..50 {
            let cycle = if kind == Kind::PathAsOf { CYCLES - 1 - number } else { CYCLES - 1 };
            let rows = &all[..((cycle + 1) * CYCLE_ROWS) as usize];
            let question = Question::new(kind, number, rows.len() as i64, CARS, CARS);
            let version = reader.as_of_cycle(cycle)?;
            let found = question.ask(&version, &accounts, &mut |_| Ok(()))?.batches;
            let again = question.ask(&version, &accounts, &mut |_| Ok(()))?.batches;
            ensure!(found == again, "{name}: another answer at the second time");
            match kind {
                Kind::Balance => {
                    let balance = found[0].column(1).as_primitive::<Int64Type>().value(0);
                    ensure!(balance == balance_of(question.vid), "{name}: {question:?}");
                }
                Kind::Expenditures => {
                    let paid = found[0].column(2).as_primitive::<Int64Type>().value(0);
                    ensure!(paid == paid_on(question.vid, question.day), "{name}: {question:?}");
                }
                _ => ensure!(reports(&found) == expected(&question, rows), "{name}: {question:?}"),
            }
        }
    }
    let box_now = Question::new(Kind::CarsInBox, 3, all.len() as i64, CARS, CARS);
    ensure!(!expected(&box_now, &all).is_empty(), "the input has no cars in the boxes");
    Ok(())
}

fn expected(question: &Question, rows: &[Report]) -> Vec<Report> {
    let of_car = || rows.iter().filter(|report| report.vid == question.vid);
    match question.kind {
        Kind::LastPosition => of_car().next_back().copied().into_iter().collect(),
        Kind::PathOfCar | Kind::PathAsOf => {
            of_car().filter(|report| report.at >= question.from).copied().collect()
        }
        Kind::Nearest => {
            let mut near: Vec<Report> = rows.to_vec();
            let far = |report: &Report| distance((report.x, report.y), question.to);
            near.sort_by(|one, other| far(one).total_cmp(&far(other)));
            near.truncate(5);
            near
        }
        _ => {
            let is_in = |report: &&Report| {
                let area = question.area;
                report.at >= question.from
                    && (area.x.0..=area.x.1).contains(&report.x)
                    && (area.y.0..=area.y.1).contains(&report.y)
            };
            rows.iter().filter(is_in).copied().collect()
        }
    }
}

fn reports(batches: &[RecordBatch]) -> Vec<Report> {
    let report = |rows: &RecordBatch, row: usize| {
        let integer = |column: usize| rows.column(column).as_primitive::<Int64Type>().value(row);
        let float = |column: usize| rows.column(column).as_primitive::<Float64Type>().value(row);
        Report {
            vid: integer(0),
            at: integer(1),
            x: float(2),
            y: float(3),
            speed: float(4),
            lane: integer(5),
        }
    };
    batches.iter().flat_map(|rows| (0..rows.num_rows()).map(move |row| report(rows, row))).collect()
}
