//! Clients that nobody wants. Each gets an error that says what is wrong, or its rows, and the stream continues.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use socket2::{Domain, Socket, Type};

use crate::feed::Feed;
use crate::load::{Inflow, STREAMS};
use crate::metrics::{Metrics, Period};
use crate::server_process::ServerProcess;

/// Nothing takes so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often what the server holds for clients is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// It holds something for so many looks: somebody does not read.
const HELD_LOOKS: usize = 30;
/// What the network keeps for a client that does not read. Otherwise the system may let it keep all of an answer, and
/// nobody has to wait.
const NETWORK_BYTES: usize = 64 * 1024;
/// What a slow reader reads at once, and how long it then does something else.
const SLOW_BYTES: usize = 256 * 1024;
const SLOW_PAUSE: Duration = Duration::from_millis(100);
/// More than the buffers of the network, and less than readers may take.
const MUCH: &str = "SELECT * FROM recent LIMIT 1000000";
/// More than any memory.
const HUNGRY: &str = "SELECT lpad(CAST(one.vid AS VARCHAR), 1000, 'x') AS text FROM recent AS one \
                      CROSS JOIN recent AS other ORDER BY text";

/// What the server has told a client at its end: a code, and a text.
type Told = (String, String);

/// A client without a library, which reads when it likes.
struct RawClient {
    stream: BufReader<TcpStream>,
}

impl RawClient {
    /// Opens a session; an error of the server if there is none.
    fn open(address: SocketAddr) -> anyhow::Result<Result<RawClient, Told>> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_recv_buffer_size(NETWORK_BYTES)?;
        socket.connect(&address.into())?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut client = RawClient { stream: BufReader::new(stream) };
        client.stream.get_mut().write_all(b"\0\0\0\x14\0\x03\0\0user\0bench\0\0")?;
        loop {
            match client.message()? {
                (b'Z', _) => return Ok(Ok(client)),
                (b'E', body) => return Ok(Err(told(&body))),
                _ => {}
            }
        }
    }

    /// Opens a session and asks.
    fn asking(address: SocketAddr, query: &str) -> anyhow::Result<RawClient> {
        let opened = RawClient::open(address)?;
        let mut client = opened.map_err(|(code, message)| anyhow::anyhow!("no session: {code} {message}"))?;
        let length = u32::try_from(query.len() + 5)?.to_be_bytes();
        client.stream.get_mut().write_all(&[b"Q", &length[..], query.as_bytes(), b"\0"].concat())?;
        Ok(client)
    }

    fn message(&mut self) -> anyhow::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).context("the server has closed the connection silently")?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        self.stream.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    /// Reads until the first row.
    fn first_row(&mut self) -> anyhow::Result<()> {
        loop {
            match self.message()? {
                (b'D', _) => return Ok(()),
                (b'E', body) => bail!("an error in place of rows: {:?}", told(&body)),
                _ => {}
            }
        }
    }

    /// Reads on until the server says why it ends.
    fn error(&mut self) -> anyhow::Result<Told> {
        loop {
            match self.message()? {
                (b'E', body) => return Ok(told(&body)),
                (b'Z', _) => bail!("the query has ended without an error"),
                _ => {}
            }
        }
    }

    /// Reads all rows, slowly; how many there were, or what the server said in their place.
    fn rows_slowly(&mut self) -> anyhow::Result<Result<u64, Told>> {
        let (mut rows, mut bytes) = (0, 0);
        loop {
            match self.message()? {
                (b'D', body) => {
                    rows += 1;
                    bytes += body.len();
                    if bytes > SLOW_BYTES {
                        bytes = 0;
                        thread::sleep(SLOW_PAUSE);
                    }
                }
                (b'C', body) => {
                    let tag = String::from_utf8_lossy(&body).into_owned();
                    ensure!(tag.trim_end_matches('\0') == format!("SELECT {rows}"), "{rows} rows, but {tag}");
                    return Ok(Ok(rows));
                }
                (b'E', body) => return Ok(Err(told(&body))),
                _ => {}
            }
        }
    }
}

/// What an error says.
fn told(body: &[u8]) -> Told {
    let field = |kind: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find_map(|field| field.strip_prefix(&[kind]));
        String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
    };
    (field(b'C'), field(b'M'))
}

/// Lets each of them come, and prints what it was told and what the stream noticed.
pub async fn meet(server: &ServerProcess, feed: &Arc<Feed>, rate: u64) -> anyhow::Result<()> {
    let inflow = Inflow::begin(feed, rate);
    let address = server.address();
    let observed = |name: &str, scene: &dyn Fn() -> anyhow::Result<String>| -> anyhow::Result<()> {
        let before = Metrics::now(server.metrics()?);
        let outcome = scene().with_context(|| name.to_owned())?;
        let after = Metrics::now(server.metrics()?);
        println!("\n{name}\n  {outcome}");
        for query in STREAMS {
            let period = Period::between(&before, &after, query);
            println!("{}", period.line(query));
            ensure!(period.events() > 0, "{name}: the stream '{query}' stands still");
        }
        Ok(())
    };
    observed("a client that stops reading its rows", &|| {
        expect(stops_reading(server, MUCH)?, &["53000", "54000"])
    })?;
    observed("a subscriber that stops reading", &|| {
        expect(stops_reading(server, "SUBSCRIBE TO recent")?, &["53000", "54000"])
    })?;
    observed("a client that reads slowly", &|| {
        // What it holds of the view grows while it reads: fast streams drop those rows meanwhile.
        match RawClient::asking(address, MUCH)?.rows_slowly()? {
            Ok(rows) => Ok(format!("it got its {rows} rows")),
            Err(told) => expect(told, &["53000"]),
        }
    })?;
    observed("a query that wants all memory", &|| {
        expect(RawClient::asking(address, HUNGRY)?.error()?, &["53000"])
    })?;
    observed("one session too many", &|| expect(one_too_many(address)?, &["53300"]))?;
    inflow.end()
}

fn expect((code, message): Told, codes: &[&str]) -> anyhow::Result<String> {
    ensure!(codes.contains(&code.as_str()), "it was told {code}: {message}");
    Ok(format!("it was told {code}: {message}"))
}

/// Asks, does not read until the server holds nothing for it any more, and then reads on.
fn stops_reading(server: &ServerProcess, query: &str) -> anyhow::Result<Told> {
    let mut client = RawClient::asking(server.address(), query)?;
    client.first_row()?;
    let start = Instant::now();
    let mut held = 0;
    loop {
        let holds = Metrics::now(server.metrics()?).unread_bytes()? > 0;
        if !holds && held >= HELD_LOOKS {
            return client.error();
        }
        held = if holds { held + 1 } else { 0 };
        ensure!(start.elapsed() < PATIENCE, "the server holds rows for it for ever, or never");
        thread::sleep(LOOK);
    }
}

/// Opens sessions until there is no room.
fn one_too_many(address: SocketAddr) -> anyhow::Result<Told> {
    let mut sessions = Vec::new();
    loop {
        match RawClient::open(address)? {
            Ok(client) => sessions.push(client),
            Err(told) => return Ok(told),
        }
        ensure!(sessions.len() < 100_000, "there is no limit");
    }
}
