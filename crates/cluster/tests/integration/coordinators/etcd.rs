//! A real etcd server.

use tidemill_cluster::coordinator::{CoordinatorError, settle};
use tidemill_testing::etcd::Server;
use tidemill_testing::ports::free_port;

use super::{LONG, conformance, connect, cut_off};

#[test]
fn it_keeps_all_promises() {
    let Some(mut server) = Server::start() else { return };
    let address = |port: u16| format!("etcd://127.0.0.1:{port}");
    conformance::check(&address(server.port));
    cut_off::check(server.port, address);
    a_member_that_is_away_is_passed_over(&server);
    it_comes_back_with_what_it_had(&mut server);
}

fn a_member_that_is_away_is_passed_over(server: &Server) {
    let mut one = connect(&format!("etcd://127.0.0.1:{},127.0.0.1:{}", free_port(), server.port));
    settle(&mut *one, "members", None, b"1", LONG).unwrap();
    assert_eq!(one.read("members").unwrap().unwrap().value, b"1");
}

fn it_comes_back_with_what_it_had(server: &mut Server) {
    let mut one = connect(&format!("etcd://127.0.0.1:{}", server.port));
    let revision = settle(&mut *one, "restart", None, b"1", LONG).unwrap();
    server.crash();
    let read = one.read("restart");
    assert!(matches!(read, Err(CoordinatorError::Unavailable { .. })), "{read:?}");
    server.resume();
    assert_eq!(one.read("restart").unwrap().unwrap().revision, revision);
    assert!(settle(&mut *one, "restart", Some(revision), b"2", LONG).unwrap() > revision);
}
