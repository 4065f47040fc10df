//! The other side: a server as small as can be that echoes, sound or with one fault. This
//! binary runs itself as `--child FAULT [FILE]`.

use std::collections::HashSet;
use std::io::{BufRead, Write};
use std::time::Duration;

/// One way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Dies 200 ms after its start, again and again.
    CrashLoop,
    /// Dies when it is called.
    CrashInCall,
    /// Answers no call.
    HangInCall,
    /// Reads, and never answers the handshake.
    NeverInitialise,
    /// Leaves at once.
    ExitAtStart,
    /// 10,000 log notifications a second.
    Notifications,
    /// 6 MB of stderr a second.
    Stderr,
    /// 5,000 lines a second on stdout that are no protocol.
    Garbage,
    /// A line on stdout that never ends, 25 MB a second.
    EndlessLine,
    /// Half a second for each call, one after the other.
    Slow,
    /// Its list of tools changed, 1,000 times a second.
    ListChanged,
    /// Answers with broken JSON.
    BrokenAnswers,
    /// Hog: notifications as fast as a pipe takes them.
    NotificationHog,
    /// Hog: stderr as fast as a pipe takes it.
    StderrHog,
    /// Hog: an endless line as fast as a pipe takes it.
    LineHog,
    /// Hog: uses a whole processor for nothing.
    Spin,
}

/// What faulty servers of a fleet have, in turns.
pub const MIXED: [Fault; 12] = [
    Fault::CrashLoop,
    Fault::HangInCall,
    Fault::Notifications,
    Fault::CrashInCall,
    Fault::Stderr,
    Fault::NeverInitialise,
    Fault::EndlessLine,
    Fault::ListChanged,
    Fault::ExitAtStart,
    Fault::Garbage,
    Fault::Slow,
    Fault::BrokenAnswers,
];

/// Those that take all the processor they get.
pub const HOGS: [Fault; 4] = [Fault::NotificationHog, Fault::StderrHog, Fault::LineHog, Fault::Spin];

impl Fault {
    fn named(name: &str) -> Option<Self> {
        MIXED.into_iter().chain(HOGS).find(|fault| format!("{fault:?}") == name)
    }
}

/// How many calls the server of the crash runs takes before it dies.
pub const IN_FLIGHT_AT_DEATH: usize = 8;

const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;
const FOREVER: Duration = Duration::from_secs(3600);

/// The result of a call with that nonce and text.
pub fn result(nonce: &str, pad: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{nonce} {pad}"}}]}}"#)
}

/// Serves stdin until it ends. `death` is the file into which it writes when it died.
pub fn main(words: &[String]) {
    let fault = words.first().and_then(|name| Fault::named(name));
    let death = words.get(1);
    begin(fault);
    let mut input = std::io::BufReader::with_capacity(64 * 1024, std::io::stdin().lock());
    let mut line = String::new();
    let mut seen = HashSet::new();
    loop {
        line.clear();
        if input.read_line(&mut line).unwrap_or(0) == 0 {
            std::process::exit(0);
        }
        let Some(rest) = line.strip_prefix(HEAD) else { continue };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (id, tail) = rest.split_at(digits);
        let answer = match member(tail, "method") {
            "initialize" if fault == Some(Fault::NeverInitialise) => continue,
            "initialize" => concat!(
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"#,
                r#""serverInfo":{"name":"fleet","version":"1"}}"#
            )
            .to_owned(),
            "tools/list" => r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#.to_owned(),
            "ping" => "{}".to_owned(),
            _ => {
                let nonce = member(tail, "nonce");
                let fresh = seen.insert(nonce.to_owned());
                if let Some(file) = death
                    && seen.len() == IN_FLIGHT_AT_DEATH
                {
                    std::fs::write(file, crate::clock().as_nanos().to_string()).unwrap();
                    die();
                }
                match fault {
                    _ if death.is_some() => continue,
                    Some(Fault::CrashInCall) => die(),
                    Some(Fault::HangInCall) => continue,
                    Some(Fault::Slow) => std::thread::sleep(Duration::from_millis(500)),
                    Some(Fault::EndlessLine) => endless(Duration::from_millis(10)),
                    Some(Fault::LineHog) => endless(Duration::ZERO),
                    _ => {}
                }
                match (fault, fresh) {
                    (Some(Fault::BrokenAnswers), _) => r#"{"content":[}"#.to_owned(),
                    (_, true) => result(nonce, member(tail, "pad")),
                    (_, false) => result(nonce, "again"),
                }
            }
        };
        say(format!("{HEAD}{id},\"result\":{answer}}}\n").as_bytes());
    }
}

/// What goes on beside the answers.
fn begin(fault: Option<Fault>) {
    let text = "x".repeat(100);
    let note = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#
    ) + "\n";
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned() + "\n";
    let pause = Duration::from_millis(10);
    match fault {
        Some(Fault::CrashLoop) => beside(|| {
            std::thread::sleep(Duration::from_millis(200));
            std::process::exit(1)
        }),
        Some(Fault::ExitAtStart) => std::process::exit(1),
        Some(Fault::Notifications) => stream(note.repeat(100), pause, say),
        Some(Fault::ListChanged) => stream(changed.repeat(10), pause, say),
        Some(Fault::Garbage) => stream("progress: 17 %\n".repeat(50), pause, say),
        Some(Fault::Stderr) => stream(format!("{text}\n").repeat(600), pause, complain),
        Some(Fault::NotificationHog) => stream(note.repeat(500), Duration::ZERO, say),
        Some(Fault::StderrHog) => stream(format!("{text}\n").repeat(600), Duration::ZERO, complain),
        Some(Fault::Spin) => beside(|| {
            loop {
                std::hint::spin_loop();
            }
        }),
        _ => {}
    }
}

fn beside(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(work);
}

fn stream(text: String, pause: Duration, write: fn(&[u8])) {
    beside(move || {
        loop {
            write(text.as_bytes());
            std::thread::sleep(pause);
        }
    });
}

fn endless(pause: Duration) {
    let piece = [b'x'; 256 * 1024];
    beside(move || {
        let mut output = std::io::stdout().lock();
        while output.write_all(&piece).and_then(|()| output.flush()).is_ok() {
            std::thread::sleep(pause);
        }
        std::thread::sleep(FOREVER);
    });
}

fn say(bytes: &[u8]) {
    let mut output = std::io::stdout().lock();
    if output.write_all(bytes).and_then(|()| output.flush()).is_err() {
        std::process::exit(0);
    }
}

fn complain(bytes: &[u8]) {
    if std::io::stderr().write_all(bytes).is_err() {
        std::process::exit(0);
    }
}

/// As a crash: nothing is flushed, nobody is told.
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

/// The text of a member, found by its spelling: these messages are ours.
fn member<'a>(text: &'a str, name: &str) -> &'a str {
    let key = format!("\"{name}\":\"");
    let Some(at) = text.find(&key) else { return "" };
    text[at + key.len()..].split('"').next().unwrap_or_default()
}
