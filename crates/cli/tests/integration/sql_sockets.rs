//! Rows over TCP: in from the test, and out to it.
#![cfg(feature = "sql")]

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::child::{end, start};
use crate::support::*;

#[test]
fn rows_come_and_go_over_tcp() {
    let give = TcpListener::bind("127.0.0.1:0").unwrap();
    let take = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!(
        "CREATE SOURCE readings (sensor VARCHAR, value DOUBLE) WITH (connector = 'tcp', connect = '{}', format = \
         'json', end_with_last_connection = true);\n\
         CREATE SINK hot AS SELECT sensor, value * 2 AS twice FROM readings WHERE value > 10 WITH (connector = 'tcp', \
         connect = '{}', format = 'csv');\n",
        give.local_addr().unwrap(),
        take.local_addr().unwrap()
    );
    let folder = folder_with(&[("p.sql", &script)]);
    let child = start(tidemill(folder.path(), &["run", "p.sql"]));
    let (mut reader, _) = take.accept().unwrap();
    let (mut writer, _) = give.accept().unwrap();
    writer
        .write_all(b"{\"sensor\":\"a\",\"value\":12.5}\n{\"sensor\":\"b\",\"value\":1}\nno json\n")
        .unwrap();
    writer.write_all(b"{\"sensor\":\"c\",\"value\":40}\n").unwrap();
    drop((writer, give));
    let mut rows = String::new();
    reader.read_to_string(&mut rows).unwrap();
    assert_eq!(rows, "sensor,twice\na,25.0\nc,80.0\n");
    end(child).expect(0).tells(&["3 rows in, 2 rows out", "1 row could not be used"]);
}
