//! Connections that are lost in the middle of a change.

use tidemill_cluster::coordinator::{CoordinatorError, Stamp, settle};

use super::proxy::{Fate, Proxy};
use super::{LONG, connect};

/// Checks it with a server at this port. `address` gives the address of the coordinator at a port.
pub fn check(server: u16, address: impl Fn(u16) -> String) {
    let proxy = Proxy::start(server);
    let (direct, through) = (address(server), address(proxy.port));
    for (fate, is_made) in [(Fate::LoseRequest, false), (Fate::LoseAnswer, true), (Fate::Delay, false)] {
        let key = format!("cut-off/{fate:?}");
        let mut one = connect(&through);
        assert_eq!(one.read(&key), Ok(None));
        proxy.next(fate);
        let lost = one.compare_and_set(&key, None, Stamp([1; 16]), b"1");
        assert!(matches!(lost, Err(CoordinatorError::Unknown { .. })), "{fate:?}: {lost:?}");
        let found = connect(&direct).read(&key).unwrap();
        assert_eq!(found.is_some(), is_made, "{fate:?}");
        // Sent again, it is settled.
        let revision = one.compare_and_set(&key, None, Stamp([1; 16]), b"1").unwrap();
        // What was still on its way changes nothing any more.
        proxy.release();
        let record = connect(&direct).read(&key).unwrap().unwrap();
        assert_eq!((record.revision, &record.value[..]), (revision, &b"1"[..]), "{fate:?}");
        if let Some(found) = found {
            assert_eq!(found, record, "{fate:?}");
        }

        proxy.next(fate);
        let settled = settle(&mut *one, &key, Some(revision), b"2", LONG).unwrap();
        proxy.release();
        let record = connect(&direct).read(&key).unwrap().unwrap();
        assert_eq!((record.revision, &record.value[..]), (settled, &b"2"[..]), "{fate:?}");

        // Another writer comes between the change and the attempt to settle it.
        proxy.next(fate);
        let lost = one.compare_and_set(&key, Some(settled), Stamp([3; 16]), b"3");
        assert!(matches!(lost, Err(CoordinatorError::Unknown { .. })), "{fate:?}: {lost:?}");
        let mut other = connect(&direct);
        let expected = other.read(&key).unwrap().map(|record| record.revision);
        let theirs = settle(&mut *other, &key, expected, b"4", LONG).unwrap();
        let late = one.compare_and_set(&key, Some(settled), Stamp([3; 16]), b"3");
        assert!(matches!(late, Err(CoordinatorError::Stale { .. })), "{fate:?}: {late:?}");
        proxy.release();
        let record = other.read(&key).unwrap().unwrap();
        assert_eq!((record.revision, &record.value[..]), (theirs, &b"4"[..]), "{fate:?}");
    }
}
