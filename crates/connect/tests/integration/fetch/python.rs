//! Python's own server of files, which cannot send parts.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use tidemill_connect::file::{FileSettings, FileSource};

use crate::fetch::support::{assert_told, csv, drain, refusal};

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn files_of_pythons_server_are_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a b.csv"), csv(100_000)).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let file = std::fs::File::create(folder.path().join("a.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let mut command = Command::new("python3");
    command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]).arg(folder.path());
    let Ok(child) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        eprintln!("there is no Python here: its server is not tried");
        return;
    };
    let mut child = Ended(child);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.split("port ").nth(1).and_then(|rest| rest.split(' ').next()).expect(&line).to_owned();
    for name in ["a%20b.csv", "a.parquet"] {
        let mut source =
            FileSource::open(FileSettings::new(format!("http://127.0.0.1:{port}/{name}"))).unwrap();
        assert_eq!(drain(&mut source).unwrap(), (0..100_000).collect::<Vec<_>>(), "{name}");
    }
    let message = refusal(FileSettings::new(format!("http://127.0.0.1:{port}/none.csv")));
    assert_told(&message, &["/none.csv: the server answers 404", "there is no such file: check the URL"]);
}
