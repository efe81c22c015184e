//! Settings as bytes, so that a query can run again with those that it was started with.

use tidemill_engine::Cause;
use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields};

use super::Settings;
use super::registry::{SETTINGS, Setting};

impl Settings {
    /// All settings that `SET` changes, as bytes: the number of settings, and the name and the value of each.
    ///
    /// ```
    /// use tidemill_sql::Settings;
    /// let settings = Settings { partitions: 4, ..Settings::default() };
    /// assert_eq!(Settings::decode(&settings.encode(), &Settings::default()).unwrap(), settings);
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        encoded(self.entries().iter().map(Entry::named))
    }

    /// As [`encode`](Settings::encode), but without the number of workers and the folder of the journal if these are what
    /// the program begins with: then another machine, and a folder that was moved, have their own.
    pub fn encode_beside(&self, defaults: &Settings) -> Vec<u8> {
        let entries = self.entries().into_iter().zip(defaults.entries());
        let is_kept =
            |(own, default): &(Entry, Entry)| !own.setting.is_of_place || own.value != default.value;
        let kept: Vec<Entry> = entries.filter(is_kept).map(|(own, _)| own).collect();
        encoded(kept.iter().map(Entry::named))
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
            let Some(setting) = SETTINGS.iter().find(|setting| setting.definition.name == name) else {
                return Err(Cause::operation(format!(
                    "this version of Tidemill does not know the setting '{name}' of a query; use the version that \
                     started the query"
                )));
            };
            (setting.value)(&mut settings).decode(&mut value).map_err(damaged)?;
            if !value.0.is_empty() {
                return Err(damaged(Malformed));
            }
        }
        if fields.0.is_empty() { Ok(settings) } else { Err(damaged(Malformed)) }
    }

    fn entries(&self) -> Vec<Entry> {
        let mut settings = self.clone();
        let entry = |setting: &'static Setting| {
            let value = (setting.value)(&mut settings).encode();
            Entry { setting, value }
        };
        SETTINGS.iter().map(entry).collect()
    }
}

/// A setting with its value in bytes.
struct Entry {
    setting: &'static Setting,
    value: Vec<u8>,
}

impl Entry {
    fn named(&self) -> (&str, &[u8]) {
        (self.setting.definition.name, &self.value)
    }
}

fn encoded<'a>(entries: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(entries.len() as u64);
    for (name, value) in entries {
        bytes.put_bytes(name.as_bytes());
        bytes.put_bytes(value);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidemill_engine::Rebalancing;

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
    fn every_setting_is_kept() {
        let second = Duration::from_secs(1);
        let before = Settings::default();
        let changed = Settings {
            workers: before.workers + 1,
            partitions: 3,
            cycle_events: 4,
            cycle_fixed: true,
            rebalancing: Rebalancing::Off,
            max_groups: 5,
            max_state_rows: 6,
            memory_limit: Some(7),
            max_result_rows: 8,
            idle_after: 9 * second,
            max_latency: Some(10 * second),
            journal: Some("eleven".into()),
            snapshot_every: 12 * second,
            ..before.clone()
        };
        // In the other direction as well, for what nothing stands for.
        for (from, to) in [(&before, &changed), (&changed, &before)] {
            assert_eq!(Settings::decode(&to.encode(), from).unwrap(), *to);
        }
        let shown: Vec<_> = before.rows().zip(changed.rows()).collect();
        assert!(
            shown.iter().all(|(before, changed)| before.1 != changed.1),
            "a setting is missing above: {shown:?}"
        );
    }

    #[test]
    fn damaged_settings_and_unknown_ones_are_refused() {
        let bytes = Settings::default().encode();
        for length in 0..bytes.len() {
            assert!(Settings::decode(&bytes[..length], &Settings::default()).is_err(), "{length} bytes");
        }
        let unknown = encoded([("colour", &[1][..])].into_iter());
        let error = Settings::decode(&unknown, &Settings::default()).unwrap_err().to_string();
        assert!(error.contains("does not know the setting 'colour'"), "{error}");
    }
}
