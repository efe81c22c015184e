//! The server as people see it with psql.
//!
//! Where psql is not installed, these tests say so and pass; in CI (`TIDEMILL_CLIENTS=required`) they fail.

use std::process::{Command, Output};

use crate::support::serve;
use tidemill_server::Server;

/// Runs psql with commands, each a message of its own; `None` if there is no psql.
fn psql(server: &Server, arguments: &[&str], commands: &[&str]) -> Option<Output> {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-h", "127.0.0.1", "-p", &server.address().port().to_string(), "-U", "me", "-d", "db"]);
    psql.args(arguments);
    for command in commands {
        psql.args(["-c", command]);
    }
    match psql.env("PGCLIENTENCODING", "UTF8").output() {
        Ok(output) => Some(output),
        Err(error) => {
            let is_required = std::env::var("TIDEMILL_CLIENTS").is_ok_and(|value| value == "required");
            assert!(!is_required, "psql cannot be run: {error}");
            eprintln!("skipped: psql cannot be run: {error}");
            None
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn values_are_shown_as_postgresql_shows_them() {
    let query = "SELECT true AS b, CAST(-2 AS SMALLINT) AS i, 1e300 AS f, 0.1 AS g, CAST(1.50 AS DECIMAL(10, 2)) AS d, \
                 'ö' AS t, X'00ff' AS x, DATE '2026-11-22' AS day, TIME '17:05:00.25' AS time, \
                 TIMESTAMP '2026-11-22 17:05:00.25' AS ts, INTERVAL '1 day 2 hours' AS span, \
                 ['a', 'b c', NULL] AS list, NULL AS nothing";
    let Some(output) = psql(&serve(), &["-A", "-t", "-P", "null=NULL"], &[query]) else { return };
    let expected = "t|-2|1e+300|0.1|1.50|ö|\\x00ff|2026-11-22|17:05:00.25|2026-11-22 17:05:00.25|1 day 02:00:00|\
                    {a,\"b c\",NULL}|NULL\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn an_error_shows_its_code_its_place_and_what_to_do() {
    let commands = ["SELECT value,\n  valu FROM sequence(count => 1)"];
    let Some(output) = psql(&serve(), &["-v", "VERBOSITY=verbose"], &commands) else { return };
    let expected = "ERROR:  42703: unknown column `valu`\nLINE 2:   valu FROM sequence(count => 1)\n          ^\n\
                    HINT:  did you mean value?\n";
    assert_eq!(text(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn statements_of_one_message_are_answered_in_order_up_to_the_first_error() {
    let server = serve();
    let script = "CREATE VIEW small AS SELECT value FROM sequence(count => 2); SELECT * FROM small; DROP VIEW nothing; \
                  DROP VIEW small";
    let Some(output) = psql(&server, &["-A", "-t"], &[script, "SELECT count(*) FROM small", ""]) else {
        return;
    };
    assert_eq!(text(&output.stdout), "CREATE VIEW\n0\n1\n2\n", "{}", text(&output.stderr));
    // What cannot be read keeps everything from being executed.
    let script = "DROP VIEW small; SELEC 1";
    let output = psql(&server, &["-A", "-t"], &[script, "SELECT count(*) FROM small"]).unwrap();
    assert_eq!(text(&output.stdout), "2\n", "{}", text(&output.stderr));
}

#[test]
fn settings_are_kept_or_refused() {
    let commands = [
        "SET workers = 1",
        "SET application_name TO 'me'",
        "SHOW application_name",
        "SET DateStyle TO 'SQL'",
        "BEGIN; SELECT 1 AS one; COMMIT",
        "SHOW server_version_num",
    ];
    let Some(output) = psql(&serve(), &["-A", "-t"], &commands) else { return };
    assert_eq!(text(&output.stdout), "SET\nSET\nme\nBEGIN\n1\nCOMMIT\n150000\n");
    assert_eq!(text(&output.stderr), "ERROR:  DateStyle is ISO, MDY, and cannot be changed to 'SQL'\n");
}

#[test]
fn the_catalogue_is_shown() {
    let server = serve();
    let define = "CREATE SOURCE reports (at TIMESTAMP, vehicle BIGINT, speed DOUBLE) WITH (path = 'reports.csv'); \
                  CREATE MATERIALIZED VIEW parity AS \
                  SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1; \
                  CREATE VIEW \"Big One\" AS SELECT vehicle, speed FROM reports";
    let Some(defined) = psql(&server, &[], &[define]) else { return };
    assert_eq!(text(&defined.stderr), "");
    let shown = |command: &str| {
        let output = psql(&server, &["-A", "-t"], &[command]).unwrap();
        assert_eq!(text(&output.stderr), "", "{command}");
        text(&output.stdout)
    };
    assert_eq!(shown("\\dt"), "public|reports|table|me\n");
    assert_eq!(
        shown("\\d"),
        "public|Big One|view|me\npublic|parity|materialized view|me\npublic|reports|table|me\n"
    );
    assert_eq!(shown("\\dn"), "public|me\n");
    assert_eq!(
        shown("\\d reports"),
        "at|timestamp without time zone|||\nvehicle|bigint|||\nspeed|double precision|||\n"
    );
    assert!(shown("\\d+").starts_with("public|Big One|view|me|permanent|"), "{}", shown("\\d+"));
    assert!(shown("\\d+ parity").starts_with("odd|bigint||not null||plain|"), "{}", shown("\\d+ parity"));
    assert_eq!(shown("\\df"), "");
    let functions = "CREATE FUNCTION twice(n BIGINT, \"By How\" DOUBLE) RETURNS DOUBLE AS 'n * \"By How\"';
        CREATE FUNCTION above(least DOUBLE) RETURNS TABLE(vehicle BIGINT)
            AS 'SELECT vehicle FROM reports WHERE speed > least'";
    assert_eq!(text(&psql(&server, &[], &[functions]).unwrap().stderr), "");
    assert_eq!(
        shown("\\df"),
        "public|above|TABLE(vehicle bigint)|least double precision|func\n\
         public|twice|double precision|n bigint, \"By How\" double precision|func\n"
    );
    let list = "SELECT array_to_string(ARRAY(SELECT attname FROM pg_attribute AS a WHERE a.attrelid = c.oid \
                ORDER BY 1), ' ') FROM pg_class AS c WHERE c.relname = 'reports'";
    assert_eq!(shown(list), "at speed vehicle\n");
    let refused = psql(&server, &[], &["SELECT ARRAY(SELECT odd FROM parity)"]).unwrap();
    assert!(
        text(&refused.stderr).contains("ARRAY(SELECT ...) is not part of the language"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(shown("\\d \"Big One\""), "vehicle|bigint|||\nspeed|double precision|||\n");
    assert_eq!(shown("\\d parity"), "odd|bigint||not null|\nn|bigint||not null|\n");
    assert!(shown("\\l").starts_with("tidemill|me|UTF8|"), "{}", shown("\\l"));
    let columns = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'reports' \
                   ORDER BY ordinal_position LIMIT 2";
    assert_eq!(shown(columns), "at|timestamp without time zone\nvehicle|bigint\n");
    assert_eq!(
        shown("SELECT current_schema(), current_database(), 'reports'::regclass IS NULL"),
        "public|tidemill|f\n"
    );
    assert_eq!(
        shown(
            "SELECT i.indisprimary, i.indkey, c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
        ),
        "t|1|parity\n"
    );
    let output = psql(&server, &["-A"], &["\\d parity"]).unwrap();
    let footer = "Indexes:\n    \"parity_pkey\" PRIMARY KEY, btree (odd)\n";
    assert!(text(&output.stdout).ends_with(footer), "{}", text(&output.stdout));
}

#[test]
fn rows_that_are_typed_in_end_with_their_mark_in_each_format() {
    let script = "CREATE SOURCE typed (n BIGINT, text VARCHAR) WITH (connector = 'push');
        CREATE MATERIALIZED VIEW rows AS SELECT n, text FROM typed;
        COPY typed FROM STDIN;
1\ta
\\.
        COPY typed FROM STDIN WITH (FORMAT csv);
2,b
3,c
\\.
        COPY typed FROM STDIN WITH (FORMAT csv, HEADER);
n,text
\\.
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).unwrap();
    let Some(output) = psql(&serve(), &["-f", file.to_str().unwrap()], &[]) else { return };
    let expected = "CREATE SOURCE\nCREATE MATERIALIZED VIEW\nCOPY 1\nCOPY 2\nCOPY 0\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn a_stopped_view_says_so_to_whoever_reads_it() {
    let server = serve();
    let define = "CREATE MATERIALIZED VIEW ticks AS SELECT max(value) AS n FROM sequence(rate => 100)";
    let Some(defined) = psql(&server, &[], &[define]) else { return };
    assert_eq!(text(&defined.stderr), "");
    let both = |command: &str| {
        let output = psql(&server, &["-A", "-t"], &[command]).unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let (done, notice) = both("STOP MATERIALIZED VIEW ticks");
    assert!(done == "STOP\n" && notice.starts_with("NOTICE:  'ticks' is stopped."), "{done}{notice}");
    let (_, notice) = both("SELECT n FROM ticks");
    assert!(notice.starts_with("NOTICE:  'ticks' is stopped"), "{notice}");
    assert!(both("SHOW QUERIES").0.starts_with("ticks|stopped|"), "{}", both("SHOW QUERIES").0);
    let (done, error) = both("BEGIN; START MATERIALIZED VIEW ticks");
    assert!(
        done.starts_with("BEGIN") && error.contains("a definition takes effect at once"),
        "{done}{error}"
    );
    let (done, notice) = both("START MATERIALIZED VIEW ticks");
    assert!(done == "START\n" && notice.contains("are missed"), "{done}{notice}");
    assert_eq!(both("SELECT count(*) FROM ticks").1, "");
    let (done, error) = both("ALTER MATERIALIZED VIEW ticks SET (max_latency = '1 s')");
    assert!(done.is_empty() && error.contains("its sources keep no rows"), "{done}{error}");
    assert!(error.contains("LINE 1: ALTER MATERIALIZED VIEW ticks"), "{error}");
}

/// Every command of psql that describes something, and those that show a definition.
const COMMANDS: &str = "\
    \\d \\d+ \\dS \\da \\da+ \\dA \\dA+ \\dAc \\dAf \\dAo \\dAp \\db \\db+ \\dc \\dc+ \\dconfig \\dC \
    \\dC+ \\dd \\dD \\dD+ \\ddp \\dE \\dE+ \\des \\det \\deu \\dew \\df \\df+ \\dfa \\dfn \\dfp \\dft \
    \\dfw \\dF \\dF+ \\dFd \\dFp \\dFt \\dg \\di \\di+ \\dl \\dL \\dL+ \\dm \\dm+ \\dn \\dn+ \\do \\dO \
    \\dO+ \\dp \\dP \\dP+ \\drds \\dRp \\dRp+ \\dRs \\dRs+ \\ds \\ds+ \\dt \\dt+ \\dT \\dT+ \\du \\du+ \
    \\dv \\dv+ \\dx \\dx+ \\dX \\dX+ \\dy \\dy+ \\l \\l+ \\z \\conninfo \\encoding";

#[test]
fn every_command_that_describes_something_is_answered() {
    let server = serve();
    let definitions = "CREATE TABLE kept (id BIGINT NOT NULL, note TEXT);
        CREATE SOURCE notes (id BIGINT NOT NULL, note VARCHAR) WITH (connector = 'push');
        CREATE MATERIALIZED VIEW newest PRIMARY KEY (id) AS SELECT id, note FROM notes;
        CREATE VIEW shown AS SELECT id FROM newest";
    let mut commands = vec![definitions];
    commands.extend(COMMANDS.split_whitespace());
    commands.extend([
        "\\d kept",
        "\\d+ newest",
        "\\d+ shown",
        "\\d newest_pkey",
        "\\dt public.k*",
        "\\sv shown",
    ]);
    let Some(output) = psql(&server, &["-A", "-t"], &commands) else { return };
    let wrong: Vec<&str> =
        std::str::from_utf8(&output.stderr).unwrap().lines().filter(|line| line.contains("ERROR")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let told = text(&output.stdout);
    for line in ["public|kept|table|me", "public|newest|materialized view|me", "note|text||| "] {
        assert!(told.contains(line.trim_end()), "{line} is not in {told}");
    }
    assert!(told.contains("SELECT id FROM newest"), "{told}");
}
