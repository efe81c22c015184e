//! Counts words that come over TCP: the typed interface in a dozen lines.
//!
//!     cargo run --example word_count                     # sends itself a few lines, prints their counts, and ends
//!     cargo run --example word_count -- 127.0.0.1:7000   # waits for lines: nc 127.0.0.1 7000

use std::error::Error;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::channel;

use tidemill::{Engine, Query, sources};

fn words(line: &str) -> Vec<(String,)> {
    line.split_whitespace().map(|word| (word.to_lowercase(),)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1);
    let lines = sources::tcp_lines(given.as_deref().unwrap_or("127.0.0.1:0"))?;
    let address = lines.local_address().ok_or("the source does not listen")?;
    let (counted, counts) = channel();

    let mut query = Query::new("word count");
    query
        .read("lines", lines)
        .flat_map("line", "word", |(line,): (String,)| words(&line))
        .key_by("word")
        .scan("count", "word", ["word", "count"], |count: &mut u64, (word,): (String,)| {
            *count += 1;
            [(word, *count)]
        })
        .for_each("print", ["word", "count"], move |(word, count): (String, u64)| {
            println!("{word} {count}");
            let _ = counted.send(count);
        });
    let run = Engine::new().workers(2).start(query)?;

    if given.is_some() {
        run.join()?;
        return Ok(());
    }
    TcpStream::connect(address)?.write_all(b"the tide comes in\nthe tide goes out\n")?;
    let words = counts.iter().take(8).count();
    let summary = run.stop()?;
    println!("{words} words in {} lines", summary.engine.per_event.count());
    Ok(())
}
