//! SQL within a program: it reads streams of the program, and its rows are a stream of the program.
//!
//!     cargo run --example sql_in_a_program

use std::time::Duration;

use tidemill::{Engine, Error, Query, Timestamp};

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

fn main() -> Result<(), Error> {
    let mut query = Query::new("tolls");
    let reports = query
        .rows::<(Timestamp, u32, u32, f64)>("reports", ["time", "car", "segment", "speed"])
        .event_time("time", Duration::from_secs(2));

    // A stream that functions of the program make, with a name for SQL.
    let entered = reports.key_by("car").scan(
        "segments entered",
        ["time", "car", "segment"],
        ["time", "car", "segment"],
        |last: &mut Option<u32>, (time, car, segment): (Timestamp, u32, u32)| {
            (last.replace(segment) != Some(segment)).then_some((time, car, segment))
        },
    );
    query.define("entered", &entered.timed_by("time"))?;

    let tolls = query.sql(
        "CREATE VIEW speeds AS
             SELECT segment, window_end, avg(speed) AS speed FROM tumble(TABLE(reports), time, INTERVAL '1 minute')
             GROUP BY segment, window_start, window_end;
         SELECT car, entered.segment, round(200 / speed, 1) AS toll FROM entered JOIN speeds
         ON entered.segment = speeds.segment
             AND entered.time BETWEEN speeds.window_end AND speeds.window_end + INTERVAL '1 minute'
         WHERE speed < 40",
    )?;
    tolls.for_each(
        "print",
        ["car", "segment", "toll"],
        |(car, segment, toll): (Option<u32>, Option<u32>, Option<f64>)| {
            if let (Some(car), Some(segment), Some(toll)) = (car, segment, toll) {
                println!("car {car} pays {toll} for segment {segment}");
            }
        },
    );

    let run = Engine::new().workers(2).start(query)?;
    run.input(&reports)?.push([
        (at(10), 1, 7, 20.0),
        (at(40), 2, 7, 30.0),
        (at(50), 3, 8, 90.0),
        (at(70), 3, 7, 35.0),
        (at(80), 1, 7, 30.0),
        (at(90), 2, 8, 80.0),
    ])?;
    run.finish()?;
    Ok(())
}
