//! A client of PostgreSQL's simple protocol that keeps the bytes of answers as they came.

use std::io::{BufReader, Error, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidemill_testing::duckdb::{Row, Value};

/// Far longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection.
pub struct Client(BufReader<TcpStream>);

/// The answer to one message of statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The type of each column of the last answer with rows.
    types: Vec<u32>,
    /// The bodies of the messages with rows.
    pub rows: Vec<Vec<u8>>,
    pub error: Option<String>,
}

impl Client {
    pub fn connect(port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut client = Client(BufReader::new(stream));
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0me\0database\0db\0\0");
        let length = (body.len() as u32 + 4).to_be_bytes();
        client.0.get_mut().write_all(&[&length[..], &body].concat())?;
        client.until_ready()?;
        Ok(client)
    }

    /// Executes statements; an error of the server is part of the answer.
    pub fn query(&mut self, statements: &str) -> Result<Answer> {
        self.send(b'Q', &[statements.as_bytes(), b"\0"].concat())?;
        self.until_ready()
    }

    /// Executes a statement whose rows come as long as the server runs, and gives each of them; `false` ends it. Returns why the
    /// server has ended it, if it has.
    pub fn stream(&mut self, statement: &str, mut take: impl FnMut(Row) -> bool) -> Result<Option<String>> {
        self.send(b'Q', &[statement.as_bytes(), b"\0"].concat())?;
        let mut answer = Answer::default();
        loop {
            match self.message()? {
                (b'T', body) => answer.types = types_of(&body),
                (b'D', body) if !take(answer.row(&body)) => return Ok(None),
                (b'E', body) => return Ok(Some(error_of(&body))),
                (b'Z', _) => return Ok(None),
                _ => {}
            }
        }
    }

    /// Copies rows into a source.
    pub fn copy(&mut self, statement: &str, rows: &str) -> Result<Answer> {
        self.send(b'Q', &[statement.as_bytes(), b"\0"].concat())?;
        match self.message()? {
            (b'G', _) => {
                self.send(b'd', rows.as_bytes())?;
                self.send(b'c', &[])?;
                self.until_ready()
            }
            (b'E', body) => Ok(Answer { error: Some(error_of(&body)), ..self.until_ready()? }),
            (kind, _) => Err(Error::other(format!("no copy but a message {}", kind as char))),
        }
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.0.get_mut().write_all(&[&[kind][..], &length, body].concat())
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.0.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    fn until_ready(&mut self) -> Result<Answer> {
        let mut answer = Answer::default();
        loop {
            match self.message()? {
                (b'T', body) => {
                    answer.types = types_of(&body);
                    answer.rows.clear();
                }
                (b'D', body) => answer.rows.push(body),
                (b'E', body) => answer.error = Some(error_of(&body)),
                (b'Z', _) => return Ok(answer),
                _ => {}
            }
        }
    }
}

impl Answer {
    /// The rows; what went wrong if there are none.
    pub fn values(&self) -> std::result::Result<Vec<Row>, String> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(self.rows.iter().map(|row| self.row(row)).collect()),
        }
    }

    /// The same rows in an order of their bytes.
    pub fn sorted(&self) -> Answer {
        let mut sorted = self.clone();
        sorted.rows.sort_unstable();
        sorted
    }

    /// The rows of a statement that is right.
    #[track_caller]
    pub fn expect(&self, statement: &str) -> Vec<Row> {
        self.values().unwrap_or_else(|error| panic!("{error}\n{statement}"))
    }

    fn row(&self, body: &[u8]) -> Row {
        let mut rest = &body[2..];
        let mut value = |data_type: &u32| {
            let (length, after) = rest.split_at(4);
            let length = i32::from_be_bytes(length.try_into().expect("four bytes"));
            let length = usize::try_from(length).ok();
            let (bytes, after) = after.split_at(length.unwrap_or(0));
            rest = after;
            length.map_or(Value::Null, |_| parse(*data_type, std::str::from_utf8(bytes).expect("UTF-8")))
        };
        self.types.iter().map(&mut value).collect()
    }
}

fn types_of(body: &[u8]) -> Vec<u32> {
    let mut rest = &body[2..];
    let mut types = Vec::new();
    while !rest.is_empty() {
        let name = rest.iter().position(|byte| *byte == 0).expect("a name ends") + 1;
        let data_type = &rest[name + 6..name + 10];
        types.push(u32::from_be_bytes(data_type.try_into().expect("four bytes")));
        rest = &rest[name + 18..];
    }
    types
}

/// The code and the message.
fn error_of(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0).filter_map(|field| field.split_first());
    let wanted = fields.filter(|(kind, _)| [b'C', b'M', b'H'].contains(kind));
    wanted.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>().join(" ")
}

/// A value by the number of its type, as PostgreSQL writes it.
fn parse(data_type: u32, text: &str) -> Value {
    match data_type {
        16 => Value::Bool(text == "t"),
        20 | 21 | 23 => Value::Int(text.parse().expect("an integer")),
        700 | 701 => Value::Float(text.parse().expect("a number")),
        1700 => {
            let scale = text.split_once('.').map_or(0, |(_, digits)| digits.len());
            Value::Decimal(text.replace('.', "").parse().expect("a decimal"), scale as u32)
        }
        1114 => Value::parse(&format!("s{}", microseconds(text))),
        _ => Value::Text(text.to_owned()),
    }
}

/// The microseconds from 1970 to a time of this century, `2026-01-01 00:00:00.5`.
fn microseconds(text: &str) -> i64 {
    let part = |from: usize, to: usize| text[from..to].parse::<i64>().expect("a number");
    let (year, month, day) = (part(0, 4), part(5, 7), part(8, 10));
    // Years begin in March, so that the day of a leap year is the last one.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + part(11, 13) * 3600 + part(14, 16) * 60 + part(17, 19);
    let fraction = text.get(20..).map_or(0, |digits| format!("{digits:0<6}").parse().expect("digits"));
    seconds * 1_000_000 + fraction
}
