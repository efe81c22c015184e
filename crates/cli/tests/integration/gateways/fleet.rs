//! Cars that report to the gateways of a server.

use std::path::Path;

use crate::oracle::client::{Answer, Client};
use crate::oracle::server::Server;
use tidemill_testing::duckdb::Value;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

/// The reports in a request.
pub const ROWS_PER_REQUEST: u64 = 10;

/// A row of the view.
#[derive(Clone, Debug, PartialEq)]
pub struct Car {
    pub n: i64,
    pub x: f64,
    pub y: f64,
    pub gate: String,
}

impl Car {
    /// The report with this number at a gateway.
    fn new(n: i64, gate: usize) -> Car {
        let spread = n.abs() * 37 + gate as i64 * 11;
        Car { n, x: (spread % 101) as f64, y: (spread % 53) as f64, gate: format!("g{gate}") }
    }
}

/// A server with gateways, and a sender for each.
pub struct Fleet {
    server: Server,
    client: Client,
    senders: Vec<Sender>,
    requests: u64,
    gateways: usize,
}

impl Fleet {
    /// Each gateway has a source, and the view has each report twice: once with its number, and once with the negative one. So
    /// its sum is 0 after each whole cycle.
    pub fn start(folder: &Path, gateways: usize, requests: u64) -> Fleet {
        Fleet::start_with(folder, gateways, requests, &[])
    }

    /// As `start`, with options of the server.
    pub fn start_with(
        folder: &Path,
        gateways: usize,
        requests: u64,
        options: &'static [&'static str],
    ) -> Fleet {
        let server = Server::start(folder, options);
        let mut client = server.connect();
        let (mut parts, mut senders) = (Vec::new(), Vec::new());
        expect(client.query("SET snapshot_every = '200 ms'").expect("it answers"), "SET");
        for gate in 0..gateways {
            let listen = free_port();
            let source = format!(
                "CREATE SOURCE cars{gate} (n BIGINT, x DOUBLE, y DOUBLE, time TIMESTAMP NOT NULL, WATERMARK FOR time)
                    WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true,
                        gateway = 'g{gate}')"
            );
            expect(client.query(&source).expect("it answers"), &source);
            for sign in ["", "-"] {
                parts.push(format!("SELECT {sign}n AS n, x, y, time, 'g{gate}' AS gate FROM cars{gate}"));
            }
            let line = |n: u64| {
                let Car { x, y, .. } = Car::new(n as i64, gate);
                format!("cars{gate} n={n}i,x={x},y={y} {}\n", 1_700_000_000_000 + n)
            };
            let numbers = |request: u64| request * ROWS_PER_REQUEST + 1..=(request + 1) * ROWS_PER_REQUEST;
            let body = |request: u64| numbers(request).map(line).collect::<String>();
            senders.push((listen, (0..requests).map(body).collect::<Vec<_>>()));
        }
        let view = format!(
            "CREATE MATERIALIZED VIEW recent WITH (key = 'n', point = 'x, y', retain = '1 day') AS {}",
            parts.join(" UNION ALL ")
        );
        expect(client.query(&view).expect("it answers"), &view);
        let senders =
            senders.into_iter().map(|(listen, bodies)| Sender::start(listen, "agent", bodies)).collect();
        Fleet { server, client, senders, requests, gateways }
    }

    /// How many requests each gateway has answered.
    pub fn answered(&self) -> Vec<u64> {
        self.senders.iter().map(Sender::answered).collect()
    }

    /// Waits until all requests are answered.
    pub fn finish(&mut self) {
        self.senders.drain(..).for_each(Sender::join);
    }

    /// Kills the server, whose gateways end with it, and starts it again.
    pub fn restart_server(&mut self) {
        self.server.end_by("KILL");
        self.server.restart();
        self.client = self.server.connect();
    }

    /// Another session.
    pub fn connect(&self) -> Client {
        self.server.connect()
    }

    /// The process of a gateway that may run no query.
    pub fn process_at(&mut self, gate: usize) -> String {
        let shown = self.text("SHOW FRAGMENTS");
        let line = shown.lines().find(|line| line.contains(&format!("|g{gate}|"))).expect("its line");
        line.rsplit('|').next().expect("a process").to_owned()
    }

    /// The process of a gateway.
    pub fn process_of(&mut self, gate: usize) -> String {
        let shown = self.text("SHOW GATEWAYS");
        let line = shown.lines().find(|line| line.contains(&format!("|g{gate}|"))).expect("its line");
        line.rsplit('|').next().expect("a process").to_owned()
    }

    /// Whether the view has as many requests as were answered before. Whatever it shows is a number of whole cycles of each
    /// gateway: the first rows that were sent there, each once with either sign.
    pub fn check_whole_cycles(&mut self, answered: &[u64]) -> bool {
        let statement =
            "SELECT gate, count(*) FILTER (WHERE n > 0), CAST(sum(n) FILTER (WHERE n > 0) AS BIGINT),
                count(*) FILTER (WHERE n < 0), CAST(sum(-n) FILTER (WHERE n < 0) AS BIGINT)
            FROM recent GROUP BY gate ORDER BY gate";
        let answer = self.client.query(statement).expect("it answers");
        let rows = match answer.values() {
            Ok(rows) => rows,
            Err(error) => {
                assert!(error.contains("gateway 'g"), "{error}");
                return false;
            }
        };
        let mut counts = vec![0; self.gateways];
        for row in rows {
            let [Value::Text(gate), Value::Int(rows), Value::Int(sum), negative @ ..] = &row[..] else {
                panic!("{row:?}")
            };
            let gate: usize = gate[1..].parse().expect("a number");
            assert_eq!(*sum, rows * (rows + 1) / 2, "the first {rows} rows of g{gate}, each once");
            let [Value::Int(other_rows), Value::Int(other_sum)] = negative else { panic!("{row:?}") };
            assert_eq!((rows, sum), (other_rows, other_sum), "half a cycle of g{gate}");
            assert!(*rows <= i128::from(self.requests * ROWS_PER_REQUEST));
            counts[gate] = *rows;
        }
        counts.iter().zip(answered).all(|(rows, answered)| *rows >= i128::from(answered * ROWS_PER_REQUEST))
    }

    /// What the view has at the end, in the order of gateways and numbers.
    pub fn all_rows(&self, requests: u64) -> Vec<Car> {
        let cars = |gate: usize| {
            let numbers = 1..=(requests * ROWS_PER_REQUEST) as i64;
            numbers.flat_map(move |n| [Car::new(-n, gate), Car::new(n, gate)])
        };
        (0..self.gateways).flat_map(cars).collect()
    }

    /// The rows of a query over the view.
    pub fn cars(&mut self, statement: &str) -> Vec<Car> {
        let rows = self.client.query(statement).expect("it answers").expect(statement);
        let car = |row: Vec<Value>| match &row[..] {
            [Value::Int(n), Value::Float(x), Value::Float(y), Value::Text(gate)] => {
                Car { n: *n as i64, x: *x, y: *y, gate: gate.clone() }
            }
            other => panic!("{other:?}"),
        };
        rows.into_iter().map(car).collect()
    }

    /// The numbers of a query with one column.
    pub fn numbers(&mut self, statement: &str) -> Vec<f64> {
        let rows = self.client.query(statement).expect("it answers").expect(statement);
        let number = |row: Vec<Value>| match row[..] {
            [Value::Float(number)] => number,
            ref other => panic!("{other:?}"),
        };
        rows.into_iter().map(number).collect()
    }

    /// The rows of a statement as text, or why there are none.
    pub fn answer(&mut self, statement: &str) -> Result<String, String> {
        let rows = self.client.query(statement).expect("it answers").values()?;
        let line = |row: &Vec<Value>| row.iter().map(text).collect::<Vec<_>>().join("|");
        Ok(rows.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    /// The rows of a statement that is right, as text.
    pub fn text(&mut self, statement: &str) -> String {
        self.answer(statement).unwrap_or_else(|error| panic!("{error}\n{statement}"))
    }

    /// Why a statement is refused.
    pub fn error(&mut self, statement: &str) -> String {
        self.answer(statement).expect_err(statement)
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Decimal(number, _) => number.to_string(),
        Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn expect(answer: Answer, statement: &str) {
    answer.expect(statement);
}
