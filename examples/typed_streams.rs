//! The typed interface: windows, a join, and state for each key, over rows that the program pushes.
//!
//!     cargo run --example typed_streams

use std::time::Duration;

use tidemill::aggregate::{average, count};
use tidemill::{Engine, Error, Query, Timestamp, Window, Within, rows_of};

const SECOND: Duration = Duration::from_secs(1);

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

fn main() -> Result<(), Error> {
    let mut query = Query::new("traffic");
    let reports = query
        .rows::<(u32, u32, Timestamp, f64)>("reports", ["car", "segment", "time", "speed"])
        .event_time("time", 2 * SECOND);
    let accidents =
        query.rows::<(u32, Timestamp)>("accidents", ["place", "happened"]).event_time("happened", 2 * SECOND);

    let speeds = reports
        .key_by("segment")
        .window(Window::tumbling("time", 60 * SECOND))
        .aggregate([count().named("cars"), average("speed").named("speed")])
        .collect("speeds", 1000);

    let entered = reports.key_by("car").scan(
        "segments entered",
        ["car", "segment", "time"],
        ["car", "segment", "entered"],
        |last: &mut Option<u32>, (car, segment, time): (u32, u32, Timestamp)| {
            (last.replace(segment) != Some(segment)).then_some((car, segment, time))
        },
    );
    let warned = entered
        .key_by("segment")
        .join("warned", &accidents.key_by("place"), &Within::new("entered", "happened").before(60 * SECOND))
        .collect("warned", 1000);

    let run = Engine::new().workers(2).start(query)?;
    run.input(&accidents)?.push([(7, at(10))])?;
    run.input(&reports)?.push([
        (1, 7, at(5), 80.0),
        (2, 7, at(20), 40.0),
        (2, 7, at(50), 10.0),
        (3, 8, at(55), 90.0),
        (3, 7, at(65), 20.0),
    ])?;
    let summary = run.finish()?;

    for (segment, cars, speed) in
        rows_of::<(u32, Option<i64>, Option<f64>)>(&speeds.read()?, ["segment", "cars", "speed"])?
    {
        println!("segment {segment}: {} reports, {:.1} on average", cars.unwrap_or(0), speed.unwrap_or(0.0));
    }
    for (car, segment) in rows_of::<(u32, u32)>(&warned.read()?, ["car", "segment"])? {
        println!("car {car} is warned: there was an accident on segment {segment}");
    }
    println!("{} events, {} late", summary.engine.per_event.count(), summary.late);
    Ok(())
}
