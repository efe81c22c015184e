//! A real PostgreSQL server.

use tidemill_cluster::coordinator::{CoordinatorError, Revision, Stamp, settle};
use tidemill_testing::postgres::Server;

use super::{LONG, conformance, connect, cut_off};

#[test]
fn it_keeps_all_promises() {
    let Some(server) = Server::start() else { return };
    conformance::check(&server.url());
    cut_off::check(server.port, |port| server.url().replace(&server.port.to_string(), &port.to_string()));
    it_comes_back_with_what_it_had(&server);
    a_table_that_cannot_be_written_is_refused(&server);
}

fn it_comes_back_with_what_it_had(server: &Server) {
    let mut one = connect(&server.url());
    let revision = settle(&mut *one, "restart", None, b"1", LONG).unwrap();
    server.crash();
    let read = one.read("restart");
    assert!(matches!(read, Err(CoordinatorError::Unavailable { .. })), "{read:?}");
    server.resume();
    assert_eq!(one.read("restart").unwrap().unwrap().revision, revision);
    assert!(settle(&mut *one, "restart", Some(revision), b"2", LONG).unwrap() > revision);
}

fn a_table_that_cannot_be_written_is_refused(server: &Server) {
    server.query("CREATE USER reader");
    let mut one = connect(&server.url().replace("tidemill@", "reader@"));
    let refused = one.compare_and_set("reader", None, Stamp([1; 16]), b"").unwrap_err();
    assert!(matches!(refused, CoordinatorError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("permission denied"), "{refused}");
    let waited = one.wait(Revision(0), LONG);
    assert!(matches!(waited, Err(CoordinatorError::Refused { .. })), "{waited:?}");
}
