//! Stage: the engine alone, volatile, fed with parsed messages from memory.

use std::time::Instant;

use anyhow::Result;
use tidemill_engine::{Engine, Feed, FeedSettings};

use crate::memory::{Batches, Table};
use crate::{points, report, statistics};

pub fn measure(messages: u64, sensors: u64) -> Result<()> {
    let batches = points::batches(0, messages, sensors)?;
    let expected = statistics::expected(messages, sensors);
    for workers in [1, 2] {
        let ((), time) = report::best_of(3, || {
            let table = Table::default();
            let source = Batches::new(batches.clone(), false);
            let start = Instant::now();
            let mut running =
                Engine::new().workers(workers).run(statistics::plan()?, vec![Box::new(table.clone())])?;
            let gateway = running.gateway(0).ok_or_else(|| anyhow::anyhow!("the plan has no source"))?;
            let feed = Feed::start(Box::new(source), gateway, FeedSettings::default())?;
            running.join()?;
            let time = start.elapsed();
            drop(feed);
            statistics::check(&table.kept().rows, &expected)?;
            Ok(((), time))
        })?;
        let bytes = messages * points::text(0, 1, sensors).len() as u64;
        let remark = format!("{sensors} keys, with split, staging and flush");
        report::speed(&format!("engine, workers: {workers}"), messages, bytes, time, &remark);
    }
    Ok(())
}
