//! Passwords and tokens, from the environment, from a file, or written in a statement: whatever the command says, keeps or
//! logs, it does not say them.
#![cfg(feature = "sql")]

use tidemill_testing::ports;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::*;

const FROM_VARIABLE: &str = "hunter2-of-the-environment";
const FROM_FILE: &str = "hunter3-of-a-file";
const WRITTEN: &str = "hunter4-in-the-statement";

/// Sinks to databases that cannot be reached, with a password of each kind, and a source with a token.
fn script(folder: &Path, port: u16) -> String {
    format!(
        "CREATE SOURCE numbers (n BIGINT) WITH (path = 'numbers.csv');\n\
         CREATE SINK a FROM numbers WITH (connector = 'postgres', table = 't', retry_for = '1 s',\n    \
         url = 'postgres://me:${{TIDEMILL_TEST_PASSWORD}}@127.0.0.1:{port}/db');\n\
         CREATE SINK b FROM numbers WITH (connector = 'postgres', table = 't', retry_for = '1 s',\n    \
         url = 'host=127.0.0.1 port={port} user=me password=${{file:{folder}/password}} dbname=db');\n\
         CREATE SINK c FROM numbers WITH (connector = 'postgres', table = 't', retry_for = '1 s', \
         url = 'postgres://me:{WRITTEN}@127.0.0.1:{port}/db');\n",
        folder = folder.display()
    )
}

fn run(command: &mut Command) -> Ended {
    command.env("TIDEMILL_TEST_PASSWORD", FROM_VARIABLE).output().unwrap().into()
}

/// Fails if a secret stands in what was said.
#[track_caller]
fn says_none(ended: &Ended) {
    for secret in [FROM_VARIABLE, FROM_FILE, WRITTEN] {
        for said in [&ended.stdout, &ended.stderr] {
            assert!(!said.contains(secret), "{secret} stands in:\n{said}");
        }
    }
}

/// All bytes below a folder.
fn contents(folder: &Path, all: &mut Vec<u8>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { contents(&path, all) } else { all.extend(fs::read(path).unwrap()) }
    }
}

#[test]
fn no_secret_is_shown_kept_or_logged() {
    let folder = folder_with(&[("numbers.csv", "n\n1\n2\n")]);
    let folder = folder.path();
    let password = folder.join("password");
    fs::write(&password, format!("{FROM_FILE}\n")).unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    // Nobody listens there.
    let port = ports::free_port();
    fs::write(folder.join("p.sql"), script(folder, port)).unwrap();

    let explained = run(&mut tidemill(folder, &["explain", "p.sql"]));
    says_none(&explained);
    assert_eq!(explained.code, Some(0), "{}", explained.stderr);
    says_none(&run(&mut tidemill(folder, &["validate", "p.sql"])));
    let ended = run(tidemill(folder, &["run", "--verbose", "p.sql"]).env("TIDEMILL_LOG", "debug"));
    says_none(&ended);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("cannot be reached"), "{}", ended.stderr);

    // A catalogue keeps what was written.
    let database = folder.join("database");
    let kept = ["sql", "--database", "database", "-f", "p.sql"];
    says_none(&run(&mut tidemill(folder, &kept)));
    let show = ["sql", "--database", "database", "-c", "SHOW SINKS; SHOW OPTIONS; DESCRIBE numbers"];
    says_none(&run(&mut tidemill(folder, &show)));
    let mut bytes = Vec::new();
    contents(&database, &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("${TIDEMILL_TEST_PASSWORD}"));
    assert!(!text.contains(FROM_VARIABLE) && !text.contains(FROM_FILE));
}

#[test]
fn errors_show_what_was_written() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let ask = |statement: &str| {
        let ended = run(&mut tidemill(folder, &["sql", "-c", statement]));
        says_none(&ended);
        ended.stderr
    };
    let shown = ask("CREATE SINK a WITH (connector = '${TIDEMILL_TEST_PASSWORD}')");
    assert!(shown.contains("unknown connector '${TIDEMILL_TEST_PASSWORD}'"), "{shown}");
    let shown =
        ask("CREATE SOURCE a (n BIGINT) WITH (connector = 'http', listen = '${TIDEMILL_TEST_PASSWORD}');\n\
                     SELECT * FROM a");
    assert!(shown.contains("http '${TIDEMILL_TEST_PASSWORD}': not a valid address"), "{shown}");
    let shown =
        ask("CREATE SINK a WITH (connector = 'postgres', table = 't', url = '${TIDEMILL_NOT_THERE}')");
    assert!(shown.contains("the environment variable TIDEMILL_NOT_THERE is not set"), "{shown}");
    let statement = format!(
        "CREATE SINK a WITH (connector = 'postgres', tabel = 't', url = 'postgres://me:{WRITTEN}@127.0.0.1/db')"
    );
    let shown = ask(&statement);
    assert!(shown.contains("postgres://me:************************@127.0.0.1/db"), "{shown}");
}
