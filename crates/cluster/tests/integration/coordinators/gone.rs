//! Servers that are not there, or do not answer: an error, and never a wait without an end.

use std::net::TcpListener;
use std::time::Duration;

use tidemill_cluster::coordinator::{CoordinatorError, Revision, Stamp, open};
use tidemill_testing::ports::free_port;

fn addresses(port: u16) -> [String; 2] {
    [format!("postgres://tidemill@127.0.0.1:{port}/postgres"), format!("etcd://127.0.0.1:{port}")]
}

#[test]
fn nobody_listens() {
    for address in addresses(free_port()) {
        let mut coordinator = open(&address, "tests", Duration::from_secs(60)).unwrap();
        let outcomes = [
            coordinator.read("a").map(drop),
            coordinator.list("").map(drop),
            coordinator.compare_and_set("a", None, Stamp([1; 16]), b"").map(drop),
            coordinator.wait(Revision(0), Duration::from_secs(60)).map(drop),
        ];
        for outcome in outcomes {
            let Err(error @ CoordinatorError::Unavailable { .. }) = outcome else { panic!("{outcome:?}") };
            assert!(error.to_string().contains("127.0.0.1"), "{error}");
        }
    }
}

#[test]
fn somebody_listens_who_says_nothing() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    for address in addresses(silent.local_addr().unwrap().port()) {
        let mut coordinator = open(&address, "tests", Duration::from_millis(200)).unwrap();
        let read = coordinator.read("a");
        assert!(matches!(read, Err(CoordinatorError::Unavailable { .. })), "{read:?}");
        // etcd may have the request, PostgreSQL has not got further than a greeting.
        let change = coordinator.compare_and_set("a", None, Stamp([1; 16]), b"").unwrap_err();
        let is_unknown = matches!(change, CoordinatorError::Unknown { .. });
        assert_eq!(is_unknown, address.starts_with("etcd"), "{change}");
        let waited = coordinator.wait(Revision(0), Duration::from_millis(200));
        assert!(matches!(waited, Err(CoordinatorError::Unavailable { .. })), "{waited:?}");
    }
}

#[test]
fn an_address_that_cannot_be_used_is_refused() {
    let addresses = [
        ("", "file:DIR"),
        ("nowhere", "file:DIR"),
        ("mysql://me@localhost/db", "file:DIR"),
        ("etcd://", "HOST:PORT"),
        ("etcd://localhost:port", "HOST:PORT"),
        ("etcd://me:secret@localhost:1", "HOST:PORT"),
        ("etcd://10.0.0.1:2379", "not encrypted"),
        ("postgres://me:secret@example.com/db", "not encrypted"),
        ("postgres://me@localhost/db?sslmode=require", "not encrypted"),
        ("postgres://me@localhost/db?unheard=of", "unheard"),
        ("file:/proc/no/folder", "cannot be created"),
    ];
    for (address, reason) in addresses {
        let error =
            open(address, "tests", Duration::from_secs(1)).err().unwrap_or_else(|| panic!("{address}"));
        assert!(matches!(error, CoordinatorError::Refused { .. }), "{address}: {error}");
        let text = error.to_string();
        assert!(text.contains(reason), "{address}: {text}");
        let is_told = text.contains("secret") && !address.starts_with("etcd");
        assert!(!is_told, "{address}: {text}");
    }
    for name in ["", "a/b", "..", "a b", "it's"] {
        let error = open("etcd://localhost", name, Duration::from_secs(1)).err().unwrap();
        assert!(matches!(error, CoordinatorError::Refused { .. }), "{name}: {error}");
    }
}
