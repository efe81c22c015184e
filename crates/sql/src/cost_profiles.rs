//! What cycles of a query have cost on this machine, stored in a file between runs: a query whose costs were measured is
//! analysed when it starts.

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill_engine::{Cause, CycleCosts, SizeCosts, SnapshotReader, SnapshotWriter};

use crate::profiles::{Profile, Profiles, machine};

/// The costs of queries.
pub(crate) type CostProfiles = Profiles<CycleCosts>;

/// The most sizes of cycles: powers of two.
const SIZES_MAX: usize = 65;

impl Profile for CycleCosts {
    const VERSION: u8 = 1;
    const BYTES_MAX: usize = 64 << 10;

    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = SnapshotWriter::default();
        writer.u64(self.cycles);
        writer.u64(nanoseconds(self.per_event));
        writer.u64(self.parts.len() as u64);
        self.parts.iter().for_each(|name| writer.bytes(name.as_bytes()));
        for (size, costs) in &self.by_events {
            writer.u64(*size);
            writer.u64(costs.events_min);
            writer.u64(nanoseconds(costs.whole));
            writer.u64(nanoseconds(costs.rest));
            costs.parts.iter().for_each(|part| writer.u64(nanoseconds(*part)));
        }
        writer.finish()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Cause> {
        let mut reader = SnapshotReader::new(bytes)?;
        let (cycles, per_event) = (reader.u64()?, Duration::from_nanos(reader.u64()?));
        let count = usize::try_from(reader.u64()?).unwrap_or(usize::MAX).min(Self::BYTES_MAX);
        let parts = (0..count).map(|_| reader.text()).collect::<Result<Vec<_>, Cause>>()?;
        let mut by_events = BTreeMap::new();
        while !reader.is_empty() && by_events.len() < SIZES_MAX {
            let (size, events_min) = (reader.u64()?, reader.u64()?);
            let mut time = || reader.u64().map(Duration::from_nanos);
            let (whole, rest) = (time()?, time()?);
            let parts = (0..parts.len()).map(|_| time()).collect::<Result<Vec<_>, Cause>>()?;
            by_events.insert(size, SizeCosts { events_min, whole, parts, rest });
        }
        Ok(CycleCosts { parts, cycles, by_events, per_event, ..CycleCosts::default() })
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The key of the costs of queries that run together: their texts, each with its connector, and the number of workers. A long
/// text counts by its checksum.
pub(crate) fn key(queries: &[(&str, String)], workers: usize) -> String {
    let text: String = queries.iter().map(|(connector, query)| format!("{connector}: {query}\n")).collect();
    let mut writer = SnapshotWriter::default();
    writer.bytes(text.as_bytes());
    let framed = writer.finish();
    let checksum = framed.iter().rev().take(4).map(|byte| format!("{byte:02x}")).collect::<String>();
    let shown: String = text.chars().take(500).collect();
    format!("{}; {workers} workers; {} bytes, {checksum}: {shown}", machine(), text.len())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn costs() -> CycleCosts {
        let us = Duration::from_micros;
        let size = |events_min, whole| SizeCosts {
            events_min,
            whole: us(whole),
            parts: vec![us(3), us(4)],
            rest: us(9),
        };
        CycleCosts {
            parts: vec!["filter".into(), "count".into()],
            cycles: 70,
            by_events: BTreeMap::from([(1, size(1, 15)), (8, size(5, 30))]),
            per_event: us(15),
            ..CycleCosts::default()
        }
    }

    #[test]
    fn costs_are_found_again() {
        let path = TempDir::new().unwrap();
        let path = path.path().join("costs");
        let key = |query: &str| key(&[("csv", query.to_owned())], 2);
        CostProfiles::add_to(&path, [(key("SELECT 1"), costs())]).unwrap();
        let found = CostProfiles::read(&path);
        assert_eq!(found.get(&key("SELECT 1")), Some(costs()));
        assert_eq!(found.get(&key("SELECT 2")), None);
        // Texts that begin alike differ.
        let long = |end: &str| key(&format!("{}{end}", "x".repeat(5000)));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").len() < 1000);
    }

    #[test]
    fn what_is_damaged_is_not_believed() {
        let good = costs().to_bytes();
        for byte in 0..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 0x10;
            assert!(CycleCosts::from_bytes(&bad).is_err(), "byte {byte}");
        }
        let huge = CycleCosts { parts: vec!["n".repeat(70_000)], ..costs() };
        let path = TempDir::new().unwrap();
        let path = path.path().join("costs");
        CostProfiles::add_to(&path, [("huge".to_owned(), huge)]).unwrap();
        assert!(CostProfiles::read(&path).get("huge").is_none());
    }
}
