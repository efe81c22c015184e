//! A store that others wrote (moto), which checks signatures and rights.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tidemill_connect::fetch::S3Settings;
use tidemill_connect::file::{FileSettings, FileSource};

use crate::fetch::support::{assert_told, csv, drain, read, refusal, settings};

struct Store {
    child: Child,
    settings: S3Settings,
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Store {
    /// With the files of a folder, in the bucket `bucket`.
    fn start(python: &str, folder: &Path) -> Store {
        let script =
            Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("tests/integration/fetch/store.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let [port, access_key, secret_key] = words.try_into().expect("the store says how to reach it");
        let settings = S3Settings {
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            access_key: Some(access_key),
            secret_key: Some(secret_key),
            ..S3Settings::default()
        };
        Store { child, settings }
    }

    fn of(&self, path: &str) -> FileSettings {
        let mut settings = FileSettings::new(path);
        settings.fetch.s3 = self.settings.clone();
        settings
    }
}

#[test]
fn objects_of_a_store_are_read() {
    let Ok(python) = std::env::var("TIDEMILL_MOTO_PYTHON") else {
        eprintln!("TIDEMILL_MOTO_PYTHON is not set: the store is not tried");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("day")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("day/a b+ü&.csv", "id\n1\n2\n");
    write("day/b.csv", "id\n3\n");
    write("day/.hidden.csv", "id\n4\n");
    write("long.csv", &csv(300_000));
    let store = Store::start(&python, folder.path());
    let rows = |path: &str| {
        let mut source = FileSource::open(store.of(path)).unwrap_or_else(|cause| panic!("{path}: {cause}"));
        drain(&mut source).unwrap_or_else(|cause| panic!("{path}: {cause}"))
    };
    assert_eq!(rows("s3://bucket/day/b.csv"), [3]);
    assert_eq!(rows("s3://bucket/day/a b+ü&.csv"), [1, 2]);
    assert_eq!(rows("s3://bucket/long.csv"), (0..300_000).collect::<Vec<_>>());
    assert_eq!(rows("s3://bucket/day/[ab]*.csv"), [1, 2, 3]);
    assert_eq!(rows("s3://bucket/**/b.csv"), [3]);
    let mut folder = settings("s3://bucket/day/");
    folder.fetch.s3 = store.settings.clone();
    assert_eq!(read(folder).unwrap(), [1, 2, 3], "hidden ones are left out");
    // They are listed in several answers.
    assert_eq!(rows("s3://many/0*.csv"), (0..55).collect::<Vec<_>>());
    assert_told(&refusal(store.of("s3://bucket/none.csv")), &["NoSuchKey", "check the key"]);
    assert_told(&refusal(store.of("s3://nobucket/none.csv")), &["NoSuchBucket", "check its name"]);
    assert_told(&refusal(store.of("s3://bucket/none*.csv")), &["no object matches"]);
    let mut wrong = store.of("s3://bucket/day/b.csv");
    wrong.fetch.s3.secret_key = Some("secret".to_owned());
    assert_told(&refusal(wrong), &["403 Forbidden (SignatureDoesNotMatch)", "check s3_secret_key"]);
    let mut unknown = store.of("s3://bucket/day/b.csv");
    unknown.fetch.s3.access_key = Some("AKIAUNKNOWN".to_owned());
    assert_told(&refusal(unknown), &["403 Forbidden (InvalidAccessKeyId)", "check s3_access_key"]);
}
