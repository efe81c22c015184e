//! How much memory there is for this process.

use std::fs::read_to_string;
use std::path::Path;

/// The bytes of memory that this process could have at most: those of the machine, or of its control group if that has a
/// limit below. `None` if neither can be found out.
///
/// ```
/// let bytes = tidemill_engine::machine_memory_bytes();
/// assert!(bytes.is_none_or(|bytes| bytes > 1 << 20));
/// ```
pub fn machine_memory_bytes() -> Option<u64> {
    let read = |path: &Path| read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    limits_of_groups(&groups, &read).chain(machine).min()
}

/// The total in the text of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// The limits of the groups that are named in the text of `/proc/self/cgroup`, and of those above them.
fn limits_of_groups<'a>(
    groups: &'a str,
    read: &'a dyn Fn(&Path) -> Option<String>,
) -> impl Iterator<Item = u64> + 'a {
    let files = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        match (parts.next()?, parts.next()?) {
            ("", group) => Some(("/sys/fs/cgroup", group, "memory.max")),
            (controllers, group) => {
                let is_of_memory = controllers.split(',').any(|name| name == "memory");
                is_of_memory.then_some(("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
            }
        }
    });
    files.flat_map(move |(root, group, file)| {
        let groups = Path::new(group.trim_start_matches('/')).ancestors().collect::<Vec<_>>();
        groups.into_iter().filter_map(move |group| {
            // `max` means that there is none.
            read(&Path::new(root).join(group).join(file))?.trim().parse::<u64>().ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_the_machine_is_in_kilobytes() {
        assert_eq!(total("MemTotal:       16318464 kB\nMemFree:  1 kB\n"), Some(16_318_464 << 10));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_limits_of_all_groups_above_count() {
        let read = |path: &Path| {
            let limit = match path.to_str()? {
                "/sys/fs/cgroup/a.slice/b.scope/memory.max" => "max",
                "/sys/fs/cgroup/a.slice/memory.max" => "4294967296",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes" => "9223372036854771712",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "1073741824",
                _ => return None,
            };
            Some(format!("{limit}\n"))
        };
        let limits = |groups: &str| limits_of_groups(groups, &read).collect::<Vec<_>>();
        assert_eq!(limits("0::/a.slice/b.scope\n"), [4_294_967_296]);
        assert_eq!(limits("3:cpu,memory:/docker\n2:pids:/x\n"), [9_223_372_036_854_771_712, 1_073_741_824]);
        assert!(limits("0::/\n").is_empty() && limits("").is_empty());
    }
}
