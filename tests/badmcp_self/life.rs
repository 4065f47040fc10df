//! Process life: exits, signals, helpers, idle ends.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use super::pipe::{Pipe, alive, command, eventually, signal};
use super::web::timed;

#[test]
fn it_exits_right_after_its_first_list() {
    let mut pipe = Pipe::opened(&["--exit-after-handshake"]);
    assert_eq!(pipe.tools().len(), 13);
    assert_eq!(pipe.raw_line(), None);
    assert_eq!(pipe.exit().code(), Some(0));
}

#[test]
fn it_kills_itself_in_the_call() {
    let mut pipe = Pipe::opened(&["--kill-self-mid-call", "--count", "{dir}/count"]);
    pipe.begin_call("count", &json!({}));
    assert_eq!(pipe.raw_line(), None);
    assert_eq!(pipe.exit().signal(), Some(9));
    assert_eq!(pipe.file("count"), "");
}

#[test]
fn the_first_calls_kill_and_later_ones_are_fine() {
    let mut dir = TempDir::new().expect("folder");
    for process in 1..=3 {
        let mut pipe = Pipe::start_in(dir, &["--crash-calls", "2"]);
        pipe.open();
        assert_eq!(pipe.tools().len(), 13);
        pipe.begin_call("t0", &json!({}));
        if process <= 2 {
            assert_eq!(pipe.raw_line(), None);
            assert_eq!(pipe.exit().signal(), Some(9));
        } else {
            assert_eq!(pipe.message()["result"]["content"][0]["text"], "t0 {}");
        }
        dir = std::mem::replace(&mut pipe.dir, TempDir::new().expect("folder"));
    }
}

#[test]
fn it_executes_and_exits_before_answering() {
    let mut pipe = Pipe::opened(&["--count", "{dir}/count", "--exit-after-execute"]);
    pipe.begin_call("count", &json!({}));
    assert_eq!(pipe.raw_line(), None);
    assert_eq!(pipe.exit().code(), Some(1));
    assert_eq!(pipe.file("count"), "1\n");
}

#[test]
fn a_signal_ends_it_by_that_signal_and_is_logged() {
    for (which, name, number) in
        [(Signal::TERM, "term", 15), (Signal::INT, "int", 2), (Signal::HUP, "hup", 1)]
    {
        let mut pipe = Pipe::opened(&["--log-shutdown", "{dir}/log"]);
        pipe.ask("ping", &json!({}));
        signal(pipe.pid(), which);
        assert_eq!(pipe.exit().signal(), Some(number));
        assert_eq!(pipe.file("log"), format!("{name}\n"));
        pipe.traced("signal", |e| e["signal"] == name);
    }
}

#[test]
fn term_and_eof_are_ignored_on_request() {
    let mut pipe = Pipe::opened(&["--ignore-sigterm", "--ignore-stdin-eof", "--log-shutdown", "{dir}/log"]);
    pipe.ask("ping", &json!({}));
    for which in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal(pipe.pid(), which);
    }
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    pipe.close_stdin();
    eventually("four lines", || (pipe.file("log").lines().count() == 4).then_some(()));
    assert!(pipe.file("log").contains("eof\n"));
    assert!(alive(pipe.pid()));
    signal(pipe.pid(), Signal::KILL);
    assert_eq!(pipe.exit().signal(), Some(9));
}

#[test]
fn only_eof_ends_it_and_it_takes_a_second() {
    let mut pipe = Pipe::opened(&["--exit-only-on-eof", "--log-shutdown", "{dir}/log"]);
    pipe.ask("ping", &json!({}));
    signal(pipe.pid(), Signal::TERM);
    eventually("term", || (pipe.file("log") == "term\n").then_some(()));
    let ((_, status), took) = timed(|| pipe.finish());
    assert_eq!(status.code(), Some(0));
    assert!(took.as_millis() >= 950, "{took:?}");
    assert_eq!(pipe.file("log"), "term\neof\n");
}

/// The helper ends with the test, even when the test fails.
struct Helper(u64);

impl Drop for Helper {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
    }
}

#[test]
fn the_grandchild_outlives_it_and_holds_the_pipes() {
    let mut pipe = Pipe::opened(&["--fork-grandchild", "--pid-file", "{dir}/pids"]);
    let helper = Helper(pipe.traced("grandchild", |_| true)["child"].as_u64().expect("pid"));
    let child = helper.0;
    assert_eq!(pipe.file("pids"), format!("{}\n{child}\n", pipe.pid()));
    pipe.close_stdin();
    assert_eq!(pipe.exit().code(), Some(0));
    assert!(alive(child));
    let target = |fd: &str| std::fs::read_link(format!("/proc/{child}/fd/{fd}")).expect("fd");
    assert!(["0", "1", "2"].iter().all(|fd| target(fd).to_string_lossy().starts_with("pipe:")));
    drop(helper);
    eventually("the end of the helper", || (!alive(child)).then_some(()));
    assert_eq!(pipe.raw_line(), None);
}

#[test]
fn it_closes_itself_when_idle_and_calls_keep_it_up() {
    let mut pipe = Pipe::opened(&["--self-close-idle", "200"]);
    let (_, took) = timed(|| {
        pipe.call("sleep", &json!({"ms": 120}));
        pipe.call("sleep", &json!({"ms": 120}));
        assert_eq!(pipe.raw_line(), None);
        assert_eq!(pipe.exit().code(), Some(0));
    });
    assert!((300..5000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(pipe.traced("exit", |_| true)["why"], "idle");
}

#[test]
fn a_server_over_http_dies_with_its_stdin() {
    let mut child = {
        let dir = TempDir::new().expect("folder");
        let mut pipe = Pipe::start_in(dir, &["--http", "0", "--die-with-stdin", "--port-file", "{dir}/port"]);
        let port: u16 = eventually("port", || pipe.file("port").parse().ok());
        eventually("stderr", || {
            let said = String::from_utf8_lossy(&pipe.stderr()).into_owned();
            said.contains(&format!("listening on 127.0.0.1:{port}\n")).then_some(())
        });
        pipe.close_stdin();
        pipe
    };
    assert_eq!(child.exit().code(), Some(0));
}

#[test]
fn a_taken_port_is_told_in_one_line() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("address").port().to_string();
    let dir = TempDir::new().expect("folder");
    let output = command(&dir, &["--http", &port]).output().expect("runs");
    assert_eq!(output.status.code(), Some(71));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
}

#[test]
fn it_tries_to_get_out_and_reports_each_try() {
    let dir = TempDir::new().expect("folder");
    let (outside, work) = (dir.path().join("outside"), dir.path().join("work"));
    for folder in [&outside, &work] {
        std::fs::create_dir(folder).expect("folder");
    }
    std::fs::write(outside.join("read"), "x").expect("written");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = json!({
        "outside": outside, "host": std::process::id(), "tcp": tcp.local_addr().expect("bound"),
        "udp": udp.local_addr().expect("bound"), "name": "nobody", "report": work.join("report.json"),
    });
    std::fs::write(work.join("target.json"), target.to_string()).expect("written");
    let mut tries = command(&dir, &["--escape", "{dir}/work/target.json"]);
    let output = tries.current_dir(&work).stdin(std::process::Stdio::null()).output().expect("runs");
    assert!(output.status.success(), "{output:?}");
    let report = std::fs::read(work.join("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert!(report.as_object().is_some_and(|tries| tries.len() > 28), "{report}");
    assert_eq!(report["read"], json!(null), "what succeeds has no error");
    assert!(report["append"].is_string(), "there is no file of that try");
    assert!(outside.join("created").exists());
    let missing = command(&dir, &["--escape", "{dir}/none"]).output().expect("runs");
    assert_eq!(missing.status.code(), Some(66));
}
