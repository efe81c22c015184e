//! The costs of splits on this machine, stored in a file between runs: EXPLAIN can predict the cost of a plan, and a
//! query begins with the plan that was best.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use tidemill_engine::{Cause, OperatorPlan, Plan, SnapshotReader, SnapshotWriter, SplitProfile};

const VERSION: u8 = 1;
/// The most profiles that are stored; the oldest are removed first.
const PROFILES_MAX: usize = 256;
/// A split with a longer description is not stored.
const KEY_BYTES_MAX: usize = 4096;
/// The most bytes of all profiles together.
const FILE_BYTES_MAX: u64 = (PROFILES_MAX * (KEY_BYTES_MAX + 256)) as u64;

/// A split that a query requests.
pub(crate) struct AskedSplit {
    /// Its display.
    pub text: String,
    /// The key of its profile: machine, query, and how it is split.
    pub key: String,
    /// Its costs in an earlier run.
    pub profile: Option<SplitProfile>,
}

/// The texts of inputs that are split by hand, by the operator's name and the input's number.
pub(crate) type SplitTexts = BTreeMap<(String, usize), String>;
/// The same with what is known about them.
pub(crate) type AskedSplits = BTreeMap<(String, usize), AskedSplit>;

/// The profiles of a file, newest first.
#[derive(Default)]
pub(crate) struct SplitProfiles(Vec<(String, SplitProfile)>);

impl SplitProfiles {
    /// The profiles of a file; none if it does not exist, is damaged or has another version. It is then rewritten.
    pub fn read(path: &Path) -> SplitProfiles {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        match read {
            Ok(_) => SplitProfiles::parse(&bytes).unwrap_or_default(),
            Err(_) => SplitProfiles::default(),
        }
    }

    fn parse(bytes: &[u8]) -> Result<SplitProfiles, Cause> {
        let mut reader = SnapshotReader::new(bytes)?;
        reader.version(VERSION)?;
        let mut profiles = Vec::new();
        while !reader.is_empty() && profiles.len() < PROFILES_MAX {
            let key = String::from_utf8_lossy(reader.bytes()?).into_owned();
            profiles.push((key, SplitProfile::from_bytes(reader.bytes()?)?));
        }
        Ok(SplitProfiles(profiles))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = SnapshotWriter::default();
        writer.u8(VERSION);
        for (key, profile) in &self.0 {
            writer.bytes(key.as_bytes());
            writer.bytes(&profile.to_bytes());
        }
        writer.finish()
    }

    /// The profile with this key.
    pub fn get(&self, key: &str) -> Option<SplitProfile> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, profile)| *profile)
    }

    /// Adds profiles to a file, and keeps those that others have added meanwhile.
    ///
    /// # Errors
    /// If it cannot be written. It then stays as it was.
    pub fn add_to(path: &Path, new: impl IntoIterator<Item = (String, SplitProfile)>) -> io::Result<()> {
        let new = new.into_iter().filter(|(key, _)| key.len() <= KEY_BYTES_MAX);
        let mut profiles = SplitProfiles(new.collect());
        for (key, profile) in SplitProfiles::read(path).0 {
            if profiles.get(&key).is_none() {
                profiles.0.push((key, profile));
            }
        }
        profiles.0.truncate(PROFILES_MAX);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A concurrent reader sees the old file or the new one.
        let beside = path.with_extension(format!("new-{}", std::process::id()));
        let written = fs::write(&beside, profiles.to_bytes()).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

/// The inputs of a plan for which a query requests a split, by operator and number, with their texts. Known profiles
/// are passed to inputs for which the engine chooses.
pub(crate) fn asked(plan: &mut Plan, texts: SplitTexts, path: Option<&Path>) -> AskedSplits {
    if texts.is_empty() {
        return AskedSplits::new();
    }
    let known = path.map(SplitProfiles::read).unwrap_or_default();
    let mut asked = AskedSplits::new();
    for ((name, input), text) in texts {
        let Some(at) = plan.operators.iter().position(|operator| operator.name == name) else { continue };
        let key = key(plan, &plan.operators[at], input, &text);
        let profile = known.get(&key);
        if let Some(auto) = &mut plan.operators[at].inputs[input].auto_split {
            auto.profile = profile;
        }
        asked.insert((name, input), AskedSplit { text, key, profile });
    }
    asked
}

/// The key of the profile of an operator's input that is split as the text says.
fn key(plan: &Plan, operator: &OperatorPlan, input: usize, text: &str) -> String {
    let (name, partitions, input) = (&operator.name, operator.partitions, &operator.inputs[input]);
    let fields = plan.schema(input.stream).map(|schema| schema.fields().clone()).unwrap_or_default();
    let read = fields.iter().filter(|field| input.columns.contains(field.name()));
    let columns: Vec<String> =
        read.map(|field| format!("{} {} {}", field.name(), field.data_type(), field.is_nullable())).collect();
    format!("{}; {name}; {partitions} of {text}; {}", machine(), columns.join(", "))
}

/// What costs depend on besides the query.
fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
        let cores = available_parallelism().map_or(1, usize::from);
        let build = if cfg!(debug_assertions) { ", debug" } else { "" };
        format!("tidemill {}{build}, {cores} of {model}", env!("CARGO_PKG_VERSION"))
    })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tidemill_engine::{Proportions, RouterCosts, SplitterCosts};

    use super::*;

    fn profile(query_ns: f64) -> SplitProfile {
        SplitProfile {
            query_ns,
            parts: Proportions::counted(1, 0, 0),
            splitter: SplitterCosts { consume_ns: 1.0, process_ns: 2.0, emit_ns: 3.0 },
            router: RouterCosts::default(),
        }
    }

    #[test]
    fn profiles_are_found_again_and_the_newest_are_kept() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("cache/profiles");
        assert!(SplitProfiles::read(&path).0.is_empty());
        for number in 0..PROFILES_MAX + 3 {
            let again = ("again".to_string(), profile(number as f64));
            SplitProfiles::add_to(&path, [(number.to_string(), profile(1.0)), again]).unwrap();
        }
        let profiles = SplitProfiles::read(&path);
        assert_eq!(profiles.0.len(), PROFILES_MAX);
        assert_eq!(profiles.get("again"), Some(profile((PROFILES_MAX + 2) as f64)));
        assert!(profiles.get("258").is_some() && profiles.get("4").is_some() && profiles.get("3").is_none());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_damaged_file_is_made_anew_and_one_that_cannot_be_written_is_an_error() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("profiles");
        SplitProfiles::add_to(&path, [("a".to_string(), profile(1.0))]).unwrap();
        let good = fs::read(&path).unwrap();
        for byte in 0..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 0x10;
            fs::write(&path, bad).unwrap();
            assert!(SplitProfiles::read(&path).0.is_empty(), "byte {byte}");
        }
        SplitProfiles::add_to(&path, [("b".to_string(), profile(2.0))]).unwrap();
        assert_eq!(SplitProfiles::read(&path).get("b"), Some(profile(2.0)));
        assert!(
            SplitProfiles::add_to(&path.join("below a file"), [("b".to_string(), profile(2.0))]).is_err()
        );
        // What is too long to be kept does not make the file unreadable.
        SplitProfiles::add_to(&path, [("k".repeat(KEY_BYTES_MAX + 1), profile(3.0))]).unwrap();
        assert_eq!(SplitProfiles::read(&path).0.len(), 1);
    }
}
