//! Workers in another process instead of another thread: the same split, half of whose rows then go over a socket; for
//! comparison, the same bytes over a plain socket.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use parking_lot::Mutex;
use tidemill_engine::arrow::array::types::{UInt32Type, UInt64Type};
use tidemill_engine::arrow::array::{Array, cast::AsArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema};
use tidemill_engine::{
    Batch, Cause, Chunk, Cut, CycleOutput, Engine, Operator, OperatorPlan, Output, Plan, Rows, Sink,
    SnapshotReader, SnapshotWriter, WorkerProcesses,
};

use crate::input::{BATCH_ROWS, BATCHES, BATCHES_OF_A_CYCLE};
use crate::tuples::{self, NUMBER, TUPLE_BYTES};

const PARTITIONS: u32 = 64;

/// Counts its rows and adds up their numbers; reports both at the end.
struct Sum {
    rows: u64,
    numbers: u64,
}

impl Operator for Sum {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.rows += rows.len() as u64;
        self.numbers +=
            rows.column::<UInt32Type>(NUMBER).iter().map(|number| u64::from(*number)).sum::<u64>();
        Ok(())
    }
    fn next_timer(&self) -> Option<i64> {
        Some(i64::MAX)
    }
    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        if cut.watermark() == i64::MAX {
            let end = output.end_position();
            output.port(0).push(end, (self.rows, self.numbers));
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Adds up the reports of the partitions.
#[derive(Clone, Default)]
struct Total(Arc<Mutex<(u64, u64)>>);

impl Sink for Total {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut total = self.0.lock();
        for batch in output.streams.into_iter().flatten() {
            let sum = |column: &dyn Array| column.as_primitive::<UInt64Type>().values().iter().sum::<u64>();
            total.0 += sum(batch.rows.column(0));
            total.1 += sum(batch.rows.column(1));
        }
        Ok(())
    }
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// The plan that all processes make.
pub fn plan() -> Plan {
    let mut plan = Plan::new("split over processes");
    let input = plan.source("input", [tuples::schema()]);
    let field = |name: &str| Field::new(name, DataType::UInt64, false);
    let operator = OperatorPlan::new("sum", PARTITIONS, |_| Box::new(Sum { rows: 0, numbers: 0 }))
        .input(input[0], tuples::columns(), tuples::route_only())
        .output(Arc::new(Schema::new(vec![field("rows"), field("numbers")])));
    let output = plan.operator(operator);
    plan.sink("total", output);
    plan
}

/// Rows per second over a number of processes with a number of workers each; wrong answers are an error.
fn measure(batches: &[Batch], processes: usize, workers: usize, pushes: usize) -> anyhow::Result<f64> {
    let total = Total::default();
    let engine = Engine::new().workers(workers).processes(WorkerProcesses::new(processes));
    let mut running = engine.run(plan(), vec![Box::new(total.clone())])?;
    let gateway = running.gateway(0).expect("the plan has a source");
    running.wait_until_ready()?;
    let start = Instant::now();
    for batch in batches.iter().cycle().take(pushes) {
        let (streams, events) = (vec![Some(batch.clone())], batch.len() as u32);
        gateway.push(Chunk { streams, events, watermark: 0, arrived_ns: None, idle: false })?;
    }
    drop(gateway);
    running.join()?;
    let elapsed_s = start.elapsed().as_secs_f64();
    let rows = (pushes * BATCH_ROWS) as u64;
    let numbers = pushes as u64 * (BATCH_ROWS as u64 * (BATCH_ROWS as u64 - 1) / 2);
    let found = *total.0.lock();
    ensure!(
        found == (rows, numbers),
        "the partitions got other rows: {found:?} instead of {:?}",
        (rows, numbers)
    );
    Ok(rows as f64 / elapsed_s)
}

/// Response times of single rows, one per millisecond: the median and the 99th percentile, in microseconds.
fn respond(batches: &[Batch], processes: usize, workers: usize) -> anyhow::Result<(f64, f64)> {
    let engine = Engine::new().workers(workers).processes(WorkerProcesses::new(processes));
    let mut running = engine.run(plan(), vec![Box::new(Total::default())])?;
    let gateway = running.gateway(0).expect("the plan has a source");
    running.wait_until_ready()?;
    for row in 0..1000 {
        let mut batch = batches[0].slice(row, row + 1);
        batch.positions = vec![0].into();
        gateway.push(Chunk {
            streams: vec![Some(batch)],
            events: 1,
            watermark: 0,
            arrived_ns: None,
            idle: false,
        })?;
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(gateway);
    let times = running.join()?.per_event;
    let us = |share| times.quantile(share).as_secs_f64() * 1e6;
    Ok((us(0.5), us(0.99)))
}

/// Bytes per second of a plain copy of the same batches over a socket of this machine, from one thread to another,
/// which keeps as many as a cycle has.
fn loopback(batches: &[Batch], pushes: usize) -> anyhow::Result<f64> {
    let blocks: Vec<Vec<u8>> = batches.iter().map(bytes_of).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (mut kept, mut place, mut received) = (vec![0; BATCHES_OF_A_CYCLE * blocks[0].len()], 0, 0);
    let start = Instant::now();
    let writer = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address)?;
        blocks.iter().cycle().take(pushes).try_for_each(|block| stream.write_all(block))
    });
    let mut stream = listener.accept()?.0;
    loop {
        match stream.read(&mut kept[place..])? {
            0 => break,
            read => received += read,
        }
        place = received % kept.len();
    }
    writer.join().expect("it does not panic")?;
    Ok(received as f64 / start.elapsed().as_secs_f64())
}

/// The columns of a batch, one after the other.
fn bytes_of(batch: &Batch) -> Vec<u8> {
    let columns = batch.rows.columns().iter();
    columns.flat_map(|column| column.as_primitive::<UInt32Type>().values().inner().to_vec()).collect()
}

/// Prints one table: threads and processes, side by side.
pub fn compare(seconds: f64, runs: u32) -> anyhow::Result<()> {
    let batches = tuples::batches(BATCHES, BATCH_ROWS, PARTITIONS, 0.0);
    // Worker 1 is in another process if there are several of one worker.
    let to_one = tuples::all_on(1, &batches);
    println!("## {PARTITIONS} partitions over processes, nothing broadcast\n");
    println!(
        "| processes x workers | M tuples/s | over sockets, MB/s | plain socket, MB/s | part of it \
         | all to one partition: M tuples/s | over sockets, MB/s | part of it | one row: median, us | 99 % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (processes, workers) in [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)] {
        let (mut rate, mut rate_to_one, mut plain) = (0_f64, 0_f64, 0_f64);
        for _ in 0..runs {
            let guess = if processes == 1 { 40e6 } else { 20e6 };
            let pushes = ((guess * seconds / BATCH_ROWS as f64) as usize).max(64);
            rate = rate.max(measure(&batches, processes, workers, pushes)?);
            rate_to_one = rate_to_one.max(measure(&to_one, processes, workers, pushes)?);
            plain = plain.max(loopback(&batches, pushes)?);
        }
        let (median_us, rare_us) = respond(&batches, processes, workers)?;
        let mb = |rate: f64, part: f64| rate * TUPLE_BYTES as f64 * part / 1e6;
        let sent = mb(rate, (processes - 1) as f64 / processes as f64);
        let sent_to_one = mb(rate_to_one, if processes > 1 && workers == 1 { 1.0 } else { 0.0 });
        let plain = plain / 1e6;
        println!(
            "| {processes} x {workers} | {:.1} | {sent:.0} | {plain:.0} | {:.2} | {:.1} | {sent_to_one:.0} | {:.2} \
             | {median_us:.0} | {rare_us:.0} |",
            rate / 1e6,
            sent / plain,
            rate_to_one / 1e6,
            sent_to_one / plain
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_are_checked() {
        let batches = tuples::batches(2, BATCH_ROWS, PARTITIONS, 0.0);
        assert!(measure(&batches, 1, 2, 3).unwrap() > 0.0);
        assert!(measure(&tuples::all_on(1, &batches), 1, 2, 3).unwrap() > 0.0);
        let short = [tuples::batches(1, 10, PARTITIONS, 0.0).remove(0)];
        assert!(measure(&short, 1, 1, 1).unwrap_err().to_string().contains("other rows"));
        assert!(loopback(&batches, 3).unwrap() > 0.0);
    }
}
