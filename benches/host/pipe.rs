//! A client that costs nearly nothing: one thread, blocking, raw lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::time::{Duration, Instant};

/// One round.
pub struct Measured {
    /// Median of one call.
    pub p50: Duration,
    /// Calls per second.
    pub per_second: f64,
    /// Processor time of the child for one call.
    pub cpu: Duration,
}

/// A child that speaks the protocol on its pipes; ended when dropped.
pub struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: usize,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The end of input is the order to leave.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

impl Pipe {
    /// Starts it.
    pub fn open(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::with_capacity(256 * 1024, child.stdout.take().unwrap());
        Self { child, input, output, next: 1 }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Reads up to the answer to `id`.
    fn answer(&mut self, id: usize) -> Vec<u8> {
        let mut line = Vec::new();
        loop {
            line.clear();
            assert!(self.output.read_until(b'\n', &mut line).unwrap() > 0, "the child left");
            if number(&line) == Some(id) {
                return line;
            }
        }
    }

    /// The handshake, and a look at the list until the tool is there.
    pub fn greet(&mut self) {
        self.write(
            br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}
"#,
        );
        self.answer(0);
        self.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        loop {
            let id = self.next;
            self.next += 1;
            self.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n").as_bytes());
            let line = self.answer(id);
            if line.windows(10).any(|bytes| bytes == b"\"name\":\"t\"") {
                return;
            }
        }
    }

    /// Keeps that many calls in flight until `calls` are answered.
    pub fn drive(&mut self, in_flight: usize, calls: usize) -> Measured {
        let first = self.next;
        let mut began = Vec::with_capacity(calls);
        let mut took = Vec::with_capacity(calls);
        let (mut out, mut line) = (Vec::new(), Vec::new());
        let cpu = cpu_time(self.child.id());
        let start = Instant::now();
        for _ in 0..in_flight.min(calls) {
            self.ask(&mut began, &mut out);
        }
        self.write(&out);
        out.clear();
        while took.len() < calls {
            line.clear();
            assert!(self.output.read_until(b'\n', &mut line).unwrap() > 0, "the child left");
            let Some(id) = number(&line).filter(|id| *id >= first) else { continue };
            took.push(began[id - first].elapsed());
            if began.len() < calls {
                self.ask(&mut began, &mut out);
            }
            if self.output.buffer().is_empty() && !out.is_empty() {
                self.write(&out);
                out.clear();
            }
        }
        let all = start.elapsed();
        let cpu = cpu_time(self.child.id()).saturating_sub(cpu);
        took.sort_unstable();
        Measured {
            p50: took[took.len() / 2],
            per_second: calls as f64 / all.as_secs_f64(),
            cpu: cpu / u32::try_from(calls).unwrap(),
        }
    }

    fn ask(&mut self, began: &mut Vec<Instant>, out: &mut Vec<u8>) {
        let id = self.next;
        self.next += 1;
        began.push(Instant::now());
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":"#);
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(b"{\"name\":\"t\",\"arguments\":{\"text\":\"hello\"}}}\n");
    }
}

/// The id of an answer that begins with it.
fn number(line: &[u8]) -> Option<usize> {
    let rest = line.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// Processor time that a process has used, from /proc; in ticks of 10 ms.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<u64> = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    Duration::from_millis(fields.iter().sum::<u64>() * 10)
}
