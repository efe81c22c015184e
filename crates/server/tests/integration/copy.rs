//! Copies between clients and the database, and cursors, as a driver in Rust sees them.

use std::time::Duration;

use crate::support::{PATIENCE, connect, run, serve_runtime};
use futures_util::{SinkExt, StreamExt, pin_mut};
use tidemill_server::Server;
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Runs a test with a client of a server, and the server.
fn with_client<T>(test: impl AsyncFnOnce(Client, &Server) -> T) -> T {
    let server = serve_runtime(&Runtime::new(Planner::new()));
    run(async {
        let client = connect(&server).await;
        test(client, &server).await
    })
}

const SOURCE: &str = "CREATE SOURCE reports (vehicle BIGINT NOT NULL, speed DOUBLE, note VARCHAR)
        WITH (connector = 'push');
    CREATE MATERIALIZED VIEW seen AS SELECT vehicle, speed, note FROM reports";

/// Copies texts or bytes; the number of rows, or the code and the message of the error.
async fn copy(
    client: &Client,
    statement: &str,
    pieces: &[impl AsRef<[u8]>],
) -> Result<u64, (SqlState, String)> {
    let told = |error: tokio_postgres::Error| {
        let error = error.as_db_error().unwrap_or_else(|| panic!("not of the server: {error:?}"));
        (error.code().clone(), error.message().to_owned())
    };
    let sink = client.copy_in(statement).await.map_err(told)?;
    pin_mut!(sink);
    for piece in pieces {
        sink.send(std::io::Cursor::new(piece.as_ref().to_vec())).await.map_err(told)?;
    }
    sink.finish().await.map_err(told)
}

async fn bytes_out(client: &Client, statement: &str) -> Result<Vec<u8>, tokio_postgres::Error> {
    let rows = client.copy_out(statement).await?;
    pin_mut!(rows);
    let mut bytes = Vec::new();
    while let Some(piece) = rows.next().await {
        bytes.extend(piece?);
    }
    Ok(bytes)
}

async fn copied_out(client: &Client, statement: &str) -> Result<String, tokio_postgres::Error> {
    Ok(String::from_utf8(bytes_out(client, statement).await?).unwrap())
}

/// What a query gives once it gives this many rows.
async fn until_rows(client: &Client, query: &str, count: usize) -> String {
    let start = std::time::Instant::now();
    loop {
        let text = copied_out(client, &format!("COPY ({query}) TO STDOUT")).await.unwrap();
        if text.lines().count() >= count {
            return text;
        }
        assert!(start.elapsed() < PATIENCE, "only {text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn rows_that_are_copied_in_are_read_by_a_view_and_copied_out() {
    with_client(async |client, _| {
        client.batch_execute(SOURCE).await.unwrap();
        let text = ["1\t10.5\ta\\tb\n2\t", "\\N\t\\N\n3\t-1\t", "\n"];
        assert_eq!(copy(&client, "COPY reports FROM STDIN", &text).await, Ok(3));
        let csv = ["speed,vehicle\n7,4\n,5\n"];
        let statement = "COPY public.reports (vehicle, speed) FROM STDIN WITH (FORMAT csv, HEADER)";
        assert_eq!(copy(&client, statement, &csv).await, Ok(2));
        let seen = until_rows(&client, "SELECT vehicle, speed, note FROM seen ORDER BY vehicle", 5).await;
        assert_eq!(seen, "1\t10.5\ta\\tb\n2\t\\N\t\\N\n3\t-1\t\n4\t7\t\\N\n5\t\\N\t\\N\n");
        let csv = copied_out(&client, "COPY seen (vehicle, note) TO STDOUT WITH (FORMAT csv, HEADER)")
            .await
            .unwrap();
        assert_eq!(csv.lines().next(), Some("vehicle,note"));
        assert!(csv.contains("\n1,a\tb\n") && csv.contains("\n3,\"\"\n") && csv.contains("\n2,\n"), "{csv}");
        let none =
            copied_out(&client, "COPY (SELECT vehicle FROM seen WHERE vehicle > 9) TO STDOUT (HEADER)").await;
        assert_eq!(none.unwrap(), "vehicle\n");
    });
}

#[test]
fn what_exists_goes_on_if_it_is_created_if_not_exists() {
    with_client(async |client, _| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seen.csv");
        let again = format!(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS seen AS SELECT vehicle, speed, note FROM reports;
             CREATE SINK IF NOT EXISTS written WITH (path = '{}') AS SELECT vehicle FROM reports",
            file.display()
        );
        client.batch_execute(SOURCE).await.unwrap();
        for vehicle in 1..4 {
            client.batch_execute(&again).await.unwrap();
            let line = format!("{vehicle}\t1\ta\n");
            assert_eq!(copy(&client, "COPY reports FROM STDIN", &[line]).await, Ok(1));
        }
        assert_eq!(until_rows(&client, "SELECT vehicle FROM seen ORDER BY vehicle", 3).await, "1\n2\n3\n");
        let start = std::time::Instant::now();
        let written = || std::fs::read_to_string(&file).unwrap_or_default();
        while written() != "vehicle\n1\n2\n3\n" {
            assert!(start.elapsed() < PATIENCE, "{}", written());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_line_that_is_wrong_ends_the_copy_with_its_number_or_is_left_out() {
    with_client(async |client, server| {
        client.batch_execute(SOURCE).await.unwrap();
        let lines = ["1\t1\ta\n", "x\t2\tb\n3\t3\n", "4\t4\td\n"];
        let (code, message) = copy(&client, "COPY reports FROM STDIN", &lines).await.unwrap_err();
        assert_eq!(code, SqlState::BAD_COPY_FILE_FORMAT);
        assert!(
            message.contains("COPY reports, line 3") || message.contains("COPY reports, line 2"),
            "{message}"
        );
        assert!(message.ends_with("no row was taken in"), "{message}");
        // The session continues.
        assert_eq!(copy(&client, "COPY reports FROM STDIN (ON_ERROR ignore)", &lines).await, Ok(2));
        assert_eq!(until_rows(&client, "SELECT vehicle FROM seen ORDER BY vehicle", 2).await, "1\n4\n");
        for (statement, text, expected) in [
            ("COPY nothing FROM STDIN", "", SqlState::UNDEFINED_TABLE),
            ("COPY seen FROM STDIN", "", SqlState::WRONG_OBJECT_TYPE),
            ("COPY reports (vehicle, sped) FROM STDIN", "", SqlState::UNDEFINED_COLUMN),
            ("COPY reports (vehicle, note, note) FROM STDIN", "1\ta\tb\n", SqlState::DUPLICATE_COLUMN),
            ("COPY reports FROM STDIN (DELIMITER 'n')", "", SqlState::SYNTAX_ERROR),
            ("COPY reports (speed) FROM STDIN", "", SqlState::NOT_NULL_VIOLATION),
            ("COPY reports FROM STDIN (FORMAT binary, HEADER)", "", SqlState::SYNTAX_ERROR),
            ("COPY reports FROM STDIN (FORMAT binary, ON_ERROR ignore)", "", SqlState::SYNTAX_ERROR),
            ("COPY reports FROM '/etc/passwd'", "", SqlState::FEATURE_NOT_SUPPORTED),
            ("COPY reports FROM STDIN CSV HEADER", "vehicle\n1\n", SqlState::BAD_COPY_FILE_FORMAT),
            ("COPY reports FROM STDIN", "\\N\t1\ta\n", SqlState::BAD_COPY_FILE_FORMAT),
        ] {
            // After an error at its beginning, this driver ends the copy once more, and then misreads the answer.
            let (code, message) = copy(&connect(server).await, statement, &[text]).await.unwrap_err();
            assert_eq!(code, expected, "{statement}: {message}");
        }
        client.batch_execute("DROP MATERIALIZED VIEW seen").await.unwrap();
        let (code, message) = copy(&client, "COPY reports FROM STDIN", &["1\t1\ta\n"]).await.unwrap_err();
        assert_eq!(code, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{message}");
        assert!(message.contains("no query reads"), "{message}");
    });
}

#[test]
fn a_copy_that_its_client_breaks_off_leaves_nothing_and_the_session_goes_on() {
    with_client(async |client, server| {
        client.batch_execute(SOURCE).await.unwrap();
        {
            let sink =
                client.copy_in::<_, std::io::Cursor<Vec<u8>>>("COPY reports FROM STDIN").await.unwrap();
            pin_mut!(sink);
            sink.send(std::io::Cursor::new(b"1\t1\ta\n".to_vec())).await.unwrap();
            // Dropped without its end: the driver sends that it fails.
        }
        assert_eq!(client.query_one("SELECT 1 AS one", &[]).await.unwrap().get::<_, i64>(0), 1);
        {
            let gone = connect(server).await;
            let sink = gone.copy_in::<_, std::io::Cursor<Vec<u8>>>("COPY reports FROM STDIN").await.unwrap();
            pin_mut!(sink);
            sink.send(std::io::Cursor::new(b"2\t2\tb\n".to_vec())).await.unwrap();
        }
        assert_eq!(copy(&client, "COPY reports FROM STDIN", &["3\t3\tc\n"]).await, Ok(1));
        assert_eq!(until_rows(&client, "SELECT vehicle FROM seen", 1).await, "3\n");
    });
}

#[test]
fn a_message_of_a_copy_that_is_too_long_is_the_reason_that_is_told() {
    with_client(async |client, _| {
        client.batch_execute(SOURCE).await.unwrap();
        let (code, message) =
            copy(&client, "COPY reports FROM STDIN", &[vec![b'x'; 17 << 20]]).await.unwrap_err();
        assert_eq!(code, SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert!(message.contains("at most 16777216 are read"), "{message}");
    });
}

/// The beginning of a copy in binary form.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// A row in binary form.
fn row(vehicle: i64, speed: Option<f64>, note: Option<&str>) -> Vec<u8> {
    let value = |bytes: Option<&[u8]>| match bytes {
        None => (-1_i32).to_be_bytes().to_vec(),
        Some(bytes) => [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat(),
    };
    let speed = speed.map(f64::to_be_bytes);
    [
        3_i16.to_be_bytes().to_vec(),
        value(Some(&vehicle.to_be_bytes())),
        value(speed.as_ref().map(|bytes| &bytes[..])),
        value(note.map(str::as_bytes)),
    ]
    .concat()
}

#[test]
fn rows_in_binary_form_are_copied_however_they_are_cut() {
    with_client(async |client, _| {
        client.batch_execute(SOURCE).await.unwrap();
        let rows = [
            row(1, Some(-0.25), Some("a\tb\\N\n\"ö")),
            row(i64::MIN, None, None),
            row(3, Some(f64::INFINITY), Some("")),
        ];
        let whole = [HEAD, &rows.concat(), &[0xff, 0xff]].concat();
        for length in [1, 7, 1000] {
            let pieces: Vec<&[u8]> = whole.chunks(length).collect();
            assert_eq!(copy(&client, "COPY reports FROM STDIN (FORMAT binary)", &pieces).await, Ok(3));
        }
        // What extends the head is passed over.
        let extended =
            [&HEAD[..15], &5_i32.to_be_bytes(), b"hello", &row(4, None, None)[..], &[0xff, 0xff]].concat();
        assert_eq!(copy(&client, "COPY reports FROM STDIN BINARY", &[extended]).await, Ok(1));
        until_rows(&client, "SELECT vehicle FROM seen", 10).await;
        // Each three times; the smallest number comes first.
        let out = bytes_out(&client, "COPY (SELECT * FROM seen ORDER BY vehicle) TO STDOUT (FORMAT binary)");
        let thrice = [&rows[1], &rows[0], &rows[2]].map(|row| row.repeat(3)).concat();
        assert_eq!(out.await.unwrap(), [HEAD, &thrice, &row(4, None, None), &[0xff, 0xff]].concat());
        let none = bytes_out(&client, "COPY (SELECT vehicle FROM seen WHERE false) TO STDOUT WITH BINARY");
        assert_eq!(none.await.unwrap(), [HEAD, &[0xff, 0xff]].concat());
    });
}

#[test]
fn bytes_that_are_no_copy_in_binary_form_are_refused_with_the_row() {
    with_client(async |client, server| {
        client.batch_execute(SOURCE).await.unwrap();
        let good = row(1, Some(1.0), Some("a"));
        let with = |bytes: &[u8]| [HEAD, &good, bytes].concat();
        let flags = [&HEAD[..11], &[0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff]].concat();
        let long = [&HEAD[..15], &i32::MAX.to_be_bytes()].concat();
        for (bytes, told) in [
            (b"1\t1\ta\n".to_vec(), "does not begin as copies in binary form do"),
            (flags, "flags that are not known here: 0x10000"),
            (long, "head has 2147483647 bytes more"),
            (HEAD[..15].to_vec(), "ends after 0 rows"),
            (with(&[0]), "ends after 1 rows, within the next one"),
            (with(&good[..good.len() - 1]), "ends after 1 rows"),
            (with(&[0xff, 0xff, 0]), "more behind the mark"),
            (with(&[0, 2]), "row 2 has 2 values instead of 3"),
            (with(&[0x80, 0]), "row 2 has -32768 values instead of 3"),
            (
                with(&[&[0, 3], &i32::MAX.to_be_bytes()[..]].concat()),
                "row 2, column 'vehicle': a value has 2147483647",
            ),
            (
                with(&[&[0, 3], &(-2_i32).to_be_bytes()[..]].concat()),
                "row 2, column 'vehicle': a value has -2 bytes",
            ),
            (
                with(b"\0\x03\0\0\0\x04\0\0\0\x01"),
                "row 2, column 'vehicle': its 4 bytes are not a binary bigint",
            ),
            (with(&row(2, None, Some("a\0b"))), "row 2, column 'note'"),
            (
                with(b"\0\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
                "COPY reports, row 2: ",
            ),
        ] {
            let client = connect(server).await;
            let copied = copy(&client, "COPY reports FROM STDIN (FORMAT binary)", &[bytes]).await;
            let (code, message) = copied.expect_err(told);
            assert_eq!(code, SqlState::BAD_COPY_FILE_FORMAT, "{message}");
            assert!(message.contains(told) && message.ends_with("no row was taken in"), "{message}");
            assert_eq!(client.query("SELECT vehicle FROM seen", &[]).await.unwrap().len(), 0);
        }
    });
}

#[test]
fn many_rows_are_copied_in_and_out_whole() {
    with_client(async |client, _| {
        client.batch_execute(SOURCE).await.unwrap();
        let lines: Vec<String> = (0..60)
            .map(|piece| (0..1000).map(|row| format!("{}\t0.5\tnote\n", piece * 1000 + row)).collect())
            .collect();
        let pieces: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(copy(&client, "COPY reports FROM STDIN", &pieces).await, Ok(60_000));
        let text = until_rows(&client, "SELECT vehicle FROM seen ORDER BY vehicle", 60_000).await;
        assert!(text.lines().enumerate().all(|(at, line)| line == at.to_string()));
    });
}

#[test]
fn a_cursor_gives_some_rows_at_a_time() {
    with_client(async |mut client, _| {
        let refused = client.batch_execute("DECLARE c CURSOR FOR SELECT 1").await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION));
        let transaction = client.transaction().await.unwrap();
        let numbers = "SELECT value FROM sequence(count => 10)";
        // With a parameter, as drivers that have cursors of the server send it.
        transaction
            .execute(&format!("DECLARE c CURSOR FOR {numbers} WHERE value >= $1"), &[&3_i64])
            .await
            .unwrap();
        let fetch = async |text: &str| {
            let rows = transaction.query(text, &[]).await.unwrap();
            rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>()
        };
        assert_eq!(fetch("FETCH 2 FROM c").await, [3, 4]);
        assert_eq!(fetch("FETCH c").await, [5]);
        assert_eq!(transaction.execute("MOVE 1 IN c", &[]).await.unwrap(), 1);
        assert_eq!(fetch("FETCH ALL FROM c").await, [7, 8, 9]);
        assert_eq!(fetch("FETCH FORWARD 5 FROM c").await, [0_i64; 0]);
        // An endless query is read as far as somebody wants.
        transaction
            .batch_execute("DECLARE e CURSOR FOR SELECT value FROM sequence(rate => 100000)")
            .await
            .unwrap();
        assert_eq!(fetch("FETCH 3 FROM e").await, [0, 1, 2]);
        transaction.batch_execute("CLOSE e").await.unwrap();
        transaction.batch_execute(&format!("DECLARE h CURSOR WITH HOLD FOR {numbers}")).await.unwrap();
        transaction.commit().await.unwrap();
        let code = |error: tokio_postgres::Error| error.code().cloned();
        let gone = client.batch_execute("FETCH 1 FROM c").await.unwrap_err();
        assert_eq!(code(gone), Some(SqlState::INVALID_CURSOR_NAME));
        assert_eq!(client.query("FETCH 2 FROM h", &[]).await.unwrap().len(), 2);
        let double =
            client.batch_execute(&format!("DECLARE h CURSOR WITH HOLD FOR {numbers}")).await.unwrap_err();
        assert_eq!(code(double), Some(SqlState::DUPLICATE_CURSOR));
        client.batch_execute("CLOSE ALL").await.unwrap();
        assert!(client.batch_execute("CLOSE h").await.is_err());
    });
}

#[test]
fn intervals_and_lists_that_are_copied_out_are_copied_in_again() {
    with_client(async |client, _| {
        let definitions =
            "CREATE SOURCE spans (id BIGINT, span INTERVAL, list DOUBLE[]) WITH (connector = 'push');
            CREATE MATERIALIZED VIEW kept AS SELECT id, span, list FROM spans";
        client.batch_execute(definitions).await.unwrap();
        let rows = "1\t1 year 2 mons -3 days +04:05:06.7\t{1,NULL,-2.5}\n2\t-00:00:00.25\t{}\n\
            3\t-1 days -02:03:04.5\t{NaN,Infinity}\n";
        assert_eq!(copy(&client, "COPY spans FROM STDIN", &[rows]).await, Ok(3));
        let out = until_rows(&client, "SELECT id, span, list FROM kept ORDER BY id", 3).await;
        assert_eq!(out, rows);
        let csv = copied_out(&client, "COPY (SELECT * FROM kept ORDER BY id) TO STDOUT (FORMAT csv)")
            .await
            .unwrap();
        assert_eq!(copy(&client, "COPY spans FROM STDIN (FORMAT csv)", &[csv]).await, Ok(3));
        let twice = until_rows(&client, "SELECT id, span, list FROM kept ORDER BY id", 6).await;
        let doubled: String = rows.lines().map(|line| format!("{line}\n{line}\n")).collect();
        assert_eq!(twice, doubled);
        let error = copy(&client, "COPY spans FROM STDIN", &["4\t00:61:00\t{}\n"]).await.unwrap_err();
        assert!(error.1.contains("'00:61:00' is not an INTERVAL"), "{error:?}");
    });
}
