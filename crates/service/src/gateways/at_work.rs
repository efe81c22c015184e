//! Signs of work: so the server knows an order that takes long from a process that hangs.

use std::fs;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::gateway_processes::Answer;

/// How often a sign is given.
const EVERY: Duration = Duration::from_secs(1);

/// Carries out an order. Meanwhile the server gets signs, as long as the process takes time of a processor.
pub(super) fn at_work<T>(server: &UnixStream, carry_out: impl FnOnce() -> T) -> T {
    // It ends with the order, also if that panics.
    let (order, ended) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut before = processor_time(PROCESS);
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
                let now = processor_time(PROCESS);
                let has_worked = now.is_none() || now != before;
                if has_worked && Answer::AtWork.send(server).is_err() {
                    return;
                }
                before = now;
            }
        });
        let result = carry_out();
        drop(order);
        result
    })
}

/// Where Linux says how this process is. Elsewhere every process counts as working.
const PROCESS: &str = "/proc/self/stat";

/// The time that the threads of this process have run, in ticks of the system; `None`: that is not known.
fn processor_time(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    // The name of the program, in brackets, may contain anything.
    let (_, fields) = text.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn signs(server: &UnixStream) -> usize {
        std::iter::from_fn(|| Answer::receive_within(server, Duration::from_millis(50)).unwrap()).count()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_works_gives_signs() {
        let (server, gateway) = UnixStream::pair().unwrap();
        let until = Instant::now() + EVERY * 3;
        let turns = at_work(&gateway, || (0_u64..).find(|_| Instant::now() > until));
        assert!(turns.is_some() && signs(&server) >= 1);
        assert_eq!(at_work(&gateway, || 7), 7);
        assert_eq!(signs(&server), 0);
    }

    #[test]
    fn times_are_read_behind_the_name_of_the_program() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fields = "S 2 3 4 5 6 7 8 9 10 11 30 12 13";
        fs::write(&file, format!("1 (a) b (c)) {fields}")).unwrap();
        assert_eq!(processor_time(file.path().to_str().unwrap()), Some(42));
        assert_eq!(processor_time("/nowhere"), None);
    }
}
