//! Clients that come and go: sessions over HTTP that nobody ends, and programs that join the host of
//! their user one after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use callboard::config::load::{Env, LoadOptions};
use callboard::serve::share::{Hello, Join, Place, Reply, Wants, join, place::VERSION};
use rustix::process::Signal;
use serde_json::json;

use crate::holdings::*;
use crate::support::bad::{memory_of, program, until};
use crate::support::client::host;
use crate::support::http_client::{Wire, front};
use crate::support::{Fleet, quick, spec};
use crate::trees::{id, is_alive, rounds, signal};

/// Most resident memory that may have been added, in bytes.
const MEMORY_MAX: u64 = 4 * MIB;

#[test]
fn abandoned_http_sessions_leave_nothing() {
    alone("sessions::abandoned_http_sessions_leave_nothing", async {
        let times = rounds("CALLBOARD_SESSIONS", 1_000);
        let host = host(Fleet::default().with(spec("s"), quick), |_| {}).await;
        let front = front(&host, |plan| {
            plan.limits.sessions_max = 2 * times as usize;
            plan.limits.session_idle = Duration::from_secs(1);
        })
        .await;
        let round = async || {
            for _ in 0..times {
                Wire::open(&front).await.session("2025-11-25").await;
            }
            until("they expire", || front.sessions() + front.connections() + host.clients().len() == 0).await;
        };
        round().await;
        let (before, memory) = (Holdings::quiet().await, resident());
        let began = Instant::now();
        round().await;
        let took = began.elapsed();
        let after = Holdings::settle(&before, "after the sessions").await;
        let grown = resident().saturating_sub(memory);
        figure(&format!(
            "{times} abandoned HTTP sessions in {took:.1?}: {after:?} as before, {:.1} MiB more resident",
            grown as f64 / MIB as f64
        ));
        assert!(grown <= MEMORY_MAX, "{} KiB more", grown >> 10);
    });
}

/// What the host's process holds: descriptors, threads, children.
fn held(pid: i32) -> [usize; 3] {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    [count("fd"), count("task"), crate::trees::children(pid).len()]
}

/// A client that shakes hands, asks for the tools, and is gone: in an orderly way or in mid-answer.
fn come_and_go(way: &dyn Fn() -> std::os::unix::net::UnixStream, orderly: bool) {
    let stream = way();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    for (id, method, params) in [(1, "initialize", hello), (2, "tools/list", json!({}))] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(&stream, "{request}").unwrap();
        if id == 2 && !orderly {
            break;
        }
        let mut line = String::new();
        while !line.contains(r#""result""#) {
            line.clear();
            assert_ne!(answers.read_line(&mut line).unwrap(), 0, "the host closed");
        }
    }
}

#[test]
fn clients_that_join_one_after_the_other_leave_nothing() {
    alone("sessions::clients_that_join_one_after_the_other_leave_nothing", async {
        let times = rounds("CALLBOARD_JOINS", 1_000);
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join(".callboard");
        std::fs::create_dir(&home).unwrap();
        let server = json!({"mcpServers": {"s": {"command": program()}}}).to_string();
        std::fs::write(home.join("mcp.json"), server).unwrap();
        let place = Place::below(&home);
        let env = Env::from_iter([
            ("HOME", folder.path().to_str().unwrap()),
            ("CALLBOARD_HOME", home.to_str().unwrap()),
        ]);
        let hello = Hello {
            version: VERSION.to_owned(),
            home: home.clone(),
            wants: Wants::Join(Join::of(&LoadOptions::new(env, folder.path()))),
        };
        let way = || join::join(&place, &hello, Path::new(env!("CARGO_BIN_EXE_callboard"))).unwrap();
        // One that stays, so that the host does.
        let (first, Reply::Joined { pid }) = way() else { panic!("it is not joined") };
        let pid = id(pid);
        let others = || way().0;
        let round = || (0..times).for_each(|at| come_and_go(&others, at % 3 > 0));
        round();
        let mut before = held(pid);
        // Descriptors of the last clients may still be on their way out.
        until("the host is quiet", || {
            let last = std::mem::replace(&mut before, held(pid));
            last == before && before[2] == 1
        })
        .await;
        let memory = memory_of(pid, "VmRSS");
        let began = Instant::now();
        round();
        let took = began.elapsed();
        until("the host holds no more than before", || {
            held(pid).iter().zip(before).all(|(now, before)| *now <= before)
        })
        .await;
        let grown = memory_of(pid, "VmRSS").saturating_sub(memory);
        figure(&format!(
            "{times} clients joined in {took:.1?}: {before:?} as before, {:.1} MiB more resident",
            grown as f64 / MIB as f64
        ));
        assert!(grown <= MEMORY_MAX, "{} KiB more", grown >> 10);
        signal(pid, Signal::TERM);
        until("the host ends", || !is_alive(pid)).await;
        drop(first);
    });
}
