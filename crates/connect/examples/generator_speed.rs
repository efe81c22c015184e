//! How fast the generators are on one core, in million events per second:
//! `cargo run --release -p tidemill-connect --features tables --example generator_speed [million events]`.

use std::time::{Duration, Instant};

use tidemill_connect::generator::{Sequence, SequenceConfig, YahooConfig, YahooEvents};
use tidemill_core::Cause;
use tidemill_core::source::{Polled, Source};

fn main() -> Result<(), Cause> {
    let millions = match std::env::args().nth(1) {
        None => 50,
        Some(text) => {
            text.parse().map_err(|_| Cause::user(format!("'{text}' is not a number of millions")))?
        }
    };
    let count = Some(millions * 1_000_000);
    let all = YahooEvents::new(YahooConfig { count, ..YahooConfig::default() })?;
    let mut needed = all.clone();
    needed.set_projection(&[2, 4, 5])?;
    let mut out_of_order =
        YahooEvents::new(YahooConfig { count, out_of_order_ms: 50, ..YahooConfig::default() })?;
    out_of_order.set_projection(&[2, 4, 5])?;
    report("sequence", Sequence::new(SequenceConfig { count, ..SequenceConfig::default() })?)?;
    report("yahoo_events: ad_id, event_type, event_time", needed)?;
    report("yahoo_events: the same, out of order", out_of_order)?;
    report("yahoo_events: all columns", all)
}

fn report(name: &str, mut source: impl Source) -> Result<(), Cause> {
    let start = Instant::now();
    let mut rows = 0;
    while let Polled::Rows(batch) = source.poll(Duration::ZERO)? {
        rows += std::hint::black_box(batch).num_rows();
    }
    println!("{:8.1} M events/s  {name}", rows as f64 / start.elapsed().as_secs_f64() / 1e6);
    Ok(())
}
