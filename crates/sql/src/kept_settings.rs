//! Settings as bytes, so that a query can run again with those that it was started with.

use std::path::PathBuf;
use std::time::Duration;

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields};
use tidemill_engine::{Cause, Rebalancing};

use crate::settings::Settings;

/// The settings that are kept only if they differ from those of the program: they belong to the machine or the folder.
const OF_THE_PLACE: [&str; 2] = ["workers", "journal"];

impl Settings {
    /// All settings that `SET` changes, as bytes: the number of settings, and the name and the value of each.
    ///
    /// ```
    /// use tidemill_sql::Settings;
    /// let settings = Settings { partitions: 4, ..Settings::default() };
    /// assert_eq!(Settings::decode(&settings.encode(), &Settings::default()).unwrap(), settings);
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        encoded(&self.entries())
    }

    /// As [`encode`](Settings::encode), but without the number of workers and the folder of the journal if these are what
    /// the program begins with: then another machine, and a folder that was moved, have their own.
    pub fn encode_beside(&self, defaults: &Settings) -> Vec<u8> {
        let (mut entries, of_defaults) = (self.entries(), defaults.entries());
        entries.retain(|entry| !OF_THE_PLACE.contains(&entry.0) || !of_defaults.contains(entry));
        encoded(&entries)
    }

    /// Settings from their bytes. What the bytes do not name is as in `defaults`.
    ///
    /// # Errors
    /// If the bytes are damaged, or name a setting that this version of Tidemill does not know.
    pub fn decode(bytes: &[u8], defaults: &Settings) -> Result<Settings, Cause> {
        let damaged = |_: Malformed| Cause::operation("the settings of a query are damaged");
        let mut settings = defaults.clone();
        let mut fields = Fields(bytes);
        for _ in 0..fields.u64().map_err(damaged)? {
            let name = fields.text().map_err(damaged)?;
            let mut value = Fields(fields.bytes().map_err(damaged)?);
            if !settings.take(&name, &mut value).map_err(damaged)? {
                return Err(Cause::operation(format!(
                    "this version of Tidemill does not know the setting '{name}' of a query; use the version that \
                     started the query"
                )));
            }
            if !value.0.is_empty() {
                return Err(damaged(Malformed));
            }
        }
        match fields.0.is_empty() {
            true => Ok(settings),
            false => Err(damaged(Malformed)),
        }
    }

    fn entries(&self) -> Vec<(&'static str, Vec<u8>)> {
        // Without `..`, so that a new setting does not compile until it is kept.
        let Settings {
            workers,
            partitions,
            cycle_events,
            cycle_fixed,
            rebalancing,
            max_groups,
            max_state_rows,
            max_result_rows,
            idle_after,
            max_latency,
            journal,
            snapshot_every,
            memory_limit,
            memory: _,
            processes: _,
            replay: _,
            gateways: _,
            split_profiles: _,
            cost_profiles: _,
        } = self;
        let number = |value: u64| value.to_le_bytes().to_vec();
        let time = |time: &Duration| number(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let path = |path: &PathBuf| path.to_string_lossy().into_owned().into_bytes();
        vec![
            ("workers", number(*workers as u64)),
            ("partitions", number((*partitions).into())),
            ("cycle_events", number((*cycle_events).into())),
            ("cycle_fixed", number((*cycle_fixed).into())),
            ("rebalance", number((*rebalancing != Rebalancing::Off).into())),
            ("max_groups", number(*max_groups as u64)),
            ("max_state_rows", number(*max_state_rows as u64)),
            ("max_result_rows", number(*max_result_rows as u64)),
            ("idle_after", time(idle_after)),
            ("max_latency", max_latency.as_ref().map_or(Vec::new(), time)),
            ("journal", journal.as_ref().map_or(Vec::new(), path)),
            ("snapshot_every", time(snapshot_every)),
            ("memory_limit", number(memory_limit.unwrap_or(0))),
        ]
    }

    /// Takes the value of a setting; whether there is one of this name.
    fn take(&mut self, name: &str, value: &mut Fields<'_>) -> Result<bool, Malformed> {
        match name {
            "workers" => self.workers = number(value)?,
            "partitions" => self.partitions = number(value)?,
            "cycle_events" => self.cycle_events = number(value)?,
            "cycle_fixed" => self.cycle_fixed = number::<u64>(value)? != 0,
            "rebalance" => {
                let rebalances = number::<u64>(value)? != 0;
                self.rebalancing = if rebalances { Rebalancing::default() } else { Rebalancing::Off };
            }
            "max_groups" => self.max_groups = number(value)?,
            "max_state_rows" => self.max_state_rows = number(value)?,
            "max_result_rows" => self.max_result_rows = number(value)?,
            "idle_after" => self.idle_after = Duration::from_nanos(value.u64()?),
            "max_latency" => {
                self.max_latency =
                    if value.0.is_empty() { None } else { Some(Duration::from_nanos(value.u64()?)) };
            }
            "journal" => {
                let path = value.take(value.0.len())?;
                let path = std::str::from_utf8(path).map_err(|_| Malformed)?;
                self.journal = (!path.is_empty()).then(|| PathBuf::from(path));
            }
            "snapshot_every" => self.snapshot_every = Duration::from_nanos(value.u64()?),
            "memory_limit" => self.memory_limit = Some(value.u64()?).filter(|limit| *limit > 0),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn encoded(entries: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(entries.len() as u64);
    for (name, value) in entries {
        bytes.put_bytes(name.as_bytes());
        bytes.put_bytes(value);
    }
    bytes
}

fn number<T: TryFrom<u64>>(value: &mut Fields<'_>) -> Result<T, Malformed> {
    T::try_from(value.u64()?).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_keeps_its_settings_but_not_those_of_the_machine() {
        let here = Settings { workers: 64, journal: Some("here".into()), ..Settings::default() };
        let changed = Settings { partitions: 3, max_latency: Some(Duration::from_millis(7)), ..here.clone() };
        let there = Settings {
            workers: 2,
            journal: Some("there".into()),
            partitions: 99,
            max_latency: Some(Duration::from_secs(1)),
            ..Settings::default()
        };
        let again = Settings::decode(&changed.encode_beside(&here), &there).unwrap();
        let expected =
            Settings { partitions: 3, max_latency: Some(Duration::from_millis(7)), ..there.clone() };
        assert_eq!(again, expected);

        let own = Settings { workers: 5, journal: Some("own".into()), max_latency: None, ..here.clone() };
        let again = Settings::decode(&own.encode_beside(&here), &there).unwrap();
        assert_eq!((again.workers, again.journal, again.max_latency), (5, Some("own".into()), None));
    }

    #[test]
    fn damaged_settings_and_unknown_ones_are_refused() {
        let bytes = Settings::default().encode();
        for length in 0..bytes.len() {
            assert!(Settings::decode(&bytes[..length], &Settings::default()).is_err(), "{length} bytes");
        }
        let unknown = encoded(&[("colour", vec![1])]);
        let error = Settings::decode(&unknown, &Settings::default()).unwrap_err().to_string();
        assert!(error.contains("does not know the setting 'colour'"), "{error}");
    }
}
