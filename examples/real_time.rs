//! Counts words that come over TCP in threads of real-time priority, with a budget of processor time. Without the privilege for
//! that it runs as well, and says what is missing.
//!
//!     cargo run --example real_time                      # sends itself a few lines, prints their number of words, and ends
//!     cargo run --example real_time -- 127.0.0.1:7000    # waits for lines: nc 127.0.0.1 7000

use std::error::Error;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use tidemill::{Cause, Engine, Pool, PoolSettings, Query, sources};

const BUDGET: Duration = Duration::from_millis(20);
const PERIOD: Duration = Duration::from_millis(100);

fn words(line: &str) -> Vec<(String,)> {
    line.split_whitespace().map(|word| (word.to_owned(),)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1);
    let lines = sources::tcp_lines(given.as_deref().unwrap_or("127.0.0.1:0"))?;
    let address = lines.local_address().ok_or("the source does not listen")?;
    let (counted, counts) = channel();
    let mut count = 0;
    let mut callback = move |words: usize| -> Result<(), Cause> {
        count += words;
        println!("{count} words");
        let _ = counted.send(count);
        Ok(())
    };

    let settings = PoolSettings::new("words").with_priority(26).with_budget(BUDGET, PERIOD);
    let pool = Pool::start(settings.with_best_effort())?;
    let mut query = Query::new("word count");
    let words = query.read("lines", lines).flat_map("line", "word", |(line,): (String,)| words(&line));
    words.for_each_batch("count", move |cycle| callback(cycle.num_rows()));
    let run = Engine::new().pool(&pool).start(query)?;

    pool.status().missing.iter().for_each(|missing| println!("without a real-time priority: {missing}"));
    if given.is_some() {
        run.join()?;
        return Ok(());
    }
    TcpStream::connect(address)?.write_all(b"the tide comes in\nthe tide goes out\n")?;
    // The lines may come in one cycle or in two.
    let all = counts.iter().find(|count| *count == 8).ok_or("the query has ended")?;
    let summary = run.stop()?;
    println!("{all} words in {} lines", summary.engine.per_event.count());
    Ok(())
}
