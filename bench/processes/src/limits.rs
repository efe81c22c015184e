//! What the machine can do at most: a plain copy in memory, and a plain socket between two threads.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

/// Bytes that are copied or sent in all.
const BYTES: usize = 256 << 20;

/// Bytes per second of copies of this size from one block of memory to another.
pub fn copy(bytes: usize, total: usize) -> f64 {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let times = (total / bytes).max(1);
    let start = Instant::now();
    for _ in 0..times {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    (times * bytes) as f64 / start.elapsed().as_secs_f64().max(1e-9)
}

/// Bytes per second of writes of this size over a socket of this machine, from one thread to another.
///
/// # Errors
/// If a socket fails.
pub fn socket(bytes: usize, total: usize) -> anyhow::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let times = (total / bytes).max(1);
    let start = Instant::now();
    let writer = std::thread::spawn(move || {
        let block = vec![1_u8; bytes];
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        (0..times).try_for_each(|_| stream.write_all(&block))
    });
    let mut stream = listener.accept()?.0;
    let (mut kept, mut received) = (vec![0; bytes.max(1 << 16)], 0);
    loop {
        match stream.read(&mut kept)? {
            0 => break,
            read => received += read,
        }
    }
    writer.join().expect("it does not panic")?;
    Ok(received as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

/// How much to copy or send: enough to be measured, or next to nothing.
pub fn total(is_quick: bool) -> usize {
    if is_quick { 1 << 16 } else { BYTES }
}

#[cfg(test)]
mod tests {
    #[test]
    fn limits_are_measured() {
        assert!(super::copy(100, 1000) > 0.0 && super::socket(100, 1000).unwrap() > 0.0);
    }
}
