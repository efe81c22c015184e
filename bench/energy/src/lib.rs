//! What a measurement uses: the energy of the machine where it counts that (Intel's and AMD's RAPL, as Linux shows it), and
//! processor time everywhere.
//!
//! Virtual machines have no such counters, and often only root may read them. The energy is that of the whole machine: other
//! programs use it, too.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

/// Where Linux shows counters of energy.
const POWERCAP: &str = "/sys/class/powercap";

/// Linux shows the time of ended processes in hundredths of a second, on all machines that we build for.
const TICK_NS: u64 = 10_000_000;

/// Processor time so far, of all threads of the process and of the processes that it has started and that have ended,
/// in nanoseconds.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let own_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    own_ns + ended_children_ticks(&stat).unwrap_or(0) * TICK_NS
}

/// `cutime` and `cstime` of a line of `/proc/PID/stat`. The name in parentheses can contain anything.
fn ended_children_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

/// Measures from its start on.
///
/// ```
/// let meter = tidemill_energy::Meter::start();
/// let sum: u64 = (0..1_000_000u64).map(std::hint::black_box).sum();
/// assert!(sum > 0 && meter.used().processor_s > 0.0);
/// ```
#[derive(Debug)]
pub struct Meter {
    start_ns: u64,
    counters: Vec<Counter>,
}

/// What was used since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// Processor time of all threads of the process, and of the processes that it has started and that have ended.
    pub processor_s: f64,
    /// The energy of the machine's processors and their memory; `None`: it does not say.
    pub joules: Option<f64>,
}

/// A counter of microjoules that begins again at 0 behind its range. Of the ranges that there are, the smallest lasts some
/// minutes; who measures longer than that measures too little.
#[derive(Debug)]
struct Counter {
    path: PathBuf,
    start_uj: u64,
    range_uj: u64,
}

impl Meter {
    /// Starts now.
    pub fn start() -> Meter {
        Meter::with_counters_in(Path::new(POWERCAP))
    }

    fn with_counters_in(folder: &Path) -> Meter {
        Meter { counters: counters(folder), start_ns: processor_ns() }
    }

    /// What was used until now.
    pub fn used(&self) -> Used {
        let processor_s = (processor_ns() - self.start_ns) as f64 / 1e9;
        let joules: Option<f64> = self.counters.iter().map(Counter::joules).sum();
        Used { processor_s, joules: joules.filter(|_| !self.counters.is_empty()) }
    }
}

impl Used {
    /// What the measurement gives for its cost: tuples per joule, or if energy is not counted, per second of a processor.
    ///
    /// ```
    /// use tidemill_energy::Used;
    /// let used = |joules| Used { processor_s: 4.0, joules };
    /// assert_eq!(used(Some(50.0)).yield_of(1e9), "20.0 M tuples/J");
    /// assert_eq!(used(None).yield_of(1e9), "250.0 M tuples/processor s");
    /// ```
    pub fn yield_of(&self, tuples: f64) -> String {
        match self.joules {
            Some(joules) => format!("{:.1} M tuples/J", tuples / joules / 1e6),
            None => format!("{:.1} M tuples/processor s", tuples / self.processor_s / 1e6),
        }
    }

    /// What the cost is measured in: `joule`, or if energy is not counted, `processor second`.
    ///
    /// ```
    /// use tidemill_energy::Used;
    /// assert_eq!(Used { processor_s: 4.0, joules: None }.unit(), "processor second");
    /// ```
    pub fn unit(&self) -> &'static str {
        match self.joules {
            Some(_) => "joule",
            None => "processor second",
        }
    }

    /// How many of these amounts each [`unit`](Used::unit) of the cost has given.
    ///
    /// ```
    /// use tidemill_energy::Used;
    /// let used = |joules| Used { processor_s: 4.0, joules };
    /// assert_eq!((used(Some(50.0)).amount_of_each(100.0), used(None).amount_of_each(100.0)), (2.0, 25.0));
    /// ```
    pub fn amount_of_each(&self, amount: f64) -> f64 {
        amount / self.joules.unwrap_or(self.processor_s)
    }

    /// What each of several equal parts of the work costs: joules, or if energy is not counted, seconds of a processor.
    ///
    /// ```
    /// use tidemill_energy::Used;
    /// let used = |joules| Used { processor_s: 4.0, joules };
    /// assert_eq!(used(Some(50.0)).cost_of_each(100.0), "0.500 J");
    /// assert_eq!(used(None).cost_of_each(100.0), "0.040 processor s");
    /// ```
    pub fn cost_of_each(&self, parts: f64) -> String {
        match self.joules {
            Some(joules) => format!("{:.3} J", joules / parts),
            None => format!("{:.3} processor s", self.processor_s / parts),
        }
    }

    /// What a thousand of many small parts of the work cost: joules, or if energy is not counted, milliseconds of a processor.
    ///
    /// ```
    /// use tidemill_energy::Used;
    /// let used = |joules| Used { processor_s: 0.75, joules };
    /// assert_eq!(used(Some(12.0)).cost_of_thousand(250_000.0), "0.048 J");
    /// assert_eq!(used(None).cost_of_thousand(250_000.0), "3.00 processor ms");
    /// ```
    pub fn cost_of_thousand(&self, parts: f64) -> String {
        let thousands = parts / 1000.0;
        match self.joules {
            Some(joules) => format!("{:.3} J", joules / thousands),
            None => format!("{:.2} processor ms", 1e3 * self.processor_s / thousands),
        }
    }
}

/// The counters of processor packages, and of memory that is not a part of them.
fn counters(folder: &Path) -> Vec<Counter> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    folders.iter().filter_map(|folder| Counter::of(folder)).collect()
}

impl Counter {
    /// The counter in a folder, if it is to be added up and can be read.
    fn of(folder: &Path) -> Option<Counter> {
        let name = fs::read_to_string(folder.join("name")).ok()?;
        let is_counted = name.trim().starts_with("package-") || name.trim() == "dram";
        let path = folder.join("energy_uj");
        let start_uj = number(&path)?;
        let range_uj = number(&folder.join("max_energy_range_uj"))?;
        is_counted.then_some(Counter { path, start_uj, range_uj })
    }

    fn joules(&self) -> Option<f64> {
        let now_uj = number(&self.path)?;
        let used_uj = if now_uj >= self.start_uj {
            now_uj - self.start_uj
        } else {
            now_uj + self.range_uj.saturating_sub(self.start_uj)
        };
        Some(used_uj as f64 / 1e6)
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn counter(folder: &Path, number: &str, name: &str, energy_uj: u64) {
        let folder = folder.join(number);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
        fs::write(folder.join("max_energy_range_uj"), "10000000\n").unwrap();
    }

    #[test]
    fn packages_and_their_memory_count_once_and_counters_begin_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |package, core, dram| {
            counter(folder.path(), "intel-rapl:0", "package-0", package);
            counter(folder.path(), "intel-rapl:0:0", "core", core);
            counter(folder.path(), "intel-rapl:0:2", "dram", dram);
        };
        write(1_000_000, 500_000, 9_000_000);
        let meter = Meter::with_counters_in(folder.path());
        assert_eq!(meter.used().joules, Some(0.0));
        // The cores are a part of the package; the memory's counter has passed its range of 10 J.
        write(3_500_000, 2_000_000, 500_000);
        assert_eq!(meter.used().joules, Some(2.5 + 1.5));
    }

    #[test]
    fn processes_that_have_ended_count() {
        let meter = Meter::start();
        let own_before = clock_gettime(ClockId::ProcessCPUTime);
        let status =
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"]).status();
        assert!(status.unwrap().success());
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own_s = (own.tv_sec - own_before.tv_sec) as f64 + (own.tv_nsec - own_before.tv_nsec) as f64 / 1e9;
        assert!(
            meter.used().processor_s > own_s + 0.01,
            "{:?}, of which {own_s} s are its own",
            meter.used()
        );
        let stat = "12 (a) name) S 1 2 3 4 5 6 7 8 9 10 11 12 130 7 20 0";
        assert_eq!(ended_children_ticks(stat), Some(137));
        assert_eq!(ended_children_ticks("nothing"), None);
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let joules = |folder: &Path| Meter::with_counters_in(folder).used().joules;
        assert_eq!(joules(&folder.path().join("missing")), None);
        assert_eq!(joules(folder.path()), None);
        counter(folder.path(), "intel-rapl:0", "package-0", 1);
        let meter = Meter::with_counters_in(folder.path());
        fs::remove_file(folder.path().join("intel-rapl:0/energy_uj")).unwrap();
        assert_eq!(meter.used().joules, None);
        assert_eq!(joules(folder.path()), None);
    }
}
