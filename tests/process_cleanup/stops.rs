//! Ends that somebody wanted: of a server, of all servers; and servers that end by themselves.

use std::time::{Duration, Instant};

use callboard::call::Delivery;
use callboard::runtime::Runtime;
use callboard::view::LifeState;
use rustix::process::Signal;
use serde_json::json;

use crate::support::bad::{SOON, Yard, program, until};
use crate::support::spec;
use crate::trees::{self, Mark, SHAPES, all_processes, id, plan, rounds};

/// All shapes, ready.
async fn ready(mark: &Mark) -> Runtime {
    let runtime = Runtime::start(plan(SHAPES.iter().map(|shape| shape.spec(mark)).collect())).await.unwrap();
    for view in runtime.settle(&[], Duration::from_secs(30)).await {
        assert_eq!(view.state, LifeState::Ready, "{view:?}");
        assert!(view.guard_pid.is_some(), "{view:?}");
    }
    mark.grown(all_processes()).await;
    runtime
}

fn repeats() -> u32 {
    rounds("CALLBOARD_STOP_ROUNDS", 1)
}

#[tokio::test]
async fn no_process_outlives_an_ordered_stop() {
    for _ in 0..repeats() {
        let mark = Mark::new();
        ready(&mark).await.shutdown().await;
        mark.assert_gone("after the shutdown");
    }
}

#[tokio::test]
async fn no_process_outlives_a_server_that_is_removed() {
    for _ in 0..repeats() {
        let mark = Mark::new();
        let runtime = ready(&mark).await;
        runtime.reload(&plan(Vec::new())).await.unwrap();
        mark.assert_gone("after the reload without them");
        runtime.shutdown().await;
    }
}

#[tokio::test]
async fn a_reload_with_a_change_leaves_one_process_tree_for_each_server() {
    for round in 0..repeats() {
        let (old, new) = (Mark::new(), Mark::new());
        let runtime = ready(&old).await;
        let changed = |shape: &trees::Shape| {
            let mut spec = shape.spec(&new);
            spec.hash = format!("changed-{round}");
            spec
        };
        runtime.reload(&plan(SHAPES.iter().map(changed).collect())).await.unwrap();
        old.assert_gone("of the replaced servers");
        new.grown(all_processes()).await;
        runtime.shutdown().await;
        new.assert_gone("after the shutdown");
    }
}

#[tokio::test]
async fn no_process_outlives_its_generation() {
    for _ in 0..repeats() {
        let mark = Mark::new();
        let runtime = ready(&mark).await;
        let old = mark.carriers();
        for shape in &SHAPES {
            assert!(runtime.restart_server(&shape.name.into()));
        }
        until("everything of the old generation is gone", || mark.carriers().is_disjoint(&old)).await;
        mark.grown(all_processes()).await;
        runtime.shutdown().await;
        mark.assert_gone("after the shutdown");
    }
}

#[tokio::test]
async fn what_a_crashed_server_leaves_behind_is_ended() {
    for _ in 0..repeats() {
        let mark = Mark::new();
        let runtime = ready(&mark).await;
        let old = mark.carriers();
        for view in runtime.status() {
            trees::signal(id(view.pid.unwrap()), Signal::KILL);
        }
        until("everything of the old generation is gone", || mark.carriers().is_disjoint(&old)).await;
        mark.grown(all_processes()).await;
        runtime.shutdown().await;
        mark.assert_gone("after the shutdown");
    }
}

#[tokio::test]
async fn no_process_outlives_a_start_that_failed() {
    for _ in 0..repeats() {
        let mark = Mark::new();
        let silent = |shape: &trees::Shape| {
            let mut spec = shape.spec(&mark);
            if let callboard::config::spec::TransportSpec::Stdio { args, .. } = &mut spec.transport {
                args.push(callboard::config::spec::SecretText::new("--never-initialize"));
            }
            spec.timeouts.connect = Duration::from_millis(300);
            spec.timeouts.max_start = Duration::from_millis(600);
            // One attempt, and no other before the test is over.
            spec.restart.max = 1;
            spec.restart.min_delay = Duration::from_secs(60);
            spec
        };
        let runtime = Runtime::start(plan(SHAPES.iter().map(silent).collect())).await.unwrap();
        until("they were started", || !mark.carriers().is_empty()).await;
        until("the attempts failed, and nothing is left", || {
            runtime.status().iter().all(|view| view.why.is_some()) && mark.carriers().is_empty()
        })
        .await;
        runtime.shutdown().await;
        mark.assert_gone("after the shutdown");
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_start_leaves_nothing() {
    for pause in [0, 1, 3, 10, 30] {
        let mark = Mark::new();
        let runtime =
            Runtime::start(plan(SHAPES.iter().map(|shape| shape.spec(&mark)).collect())).await.unwrap();
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        for _ in 0..pause {
            tick.tick().await;
        }
        runtime.shutdown().await;
        until("nothing is left", || mark.carriers().is_empty()).await;
    }
}

#[test]
fn a_runtime_that_is_just_dropped_leaves_nothing() {
    let mark = Mark::new();
    let new = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tokio = new();
    let runtime = tokio.block_on(ready(&mark));
    drop((tokio, runtime));
    new().block_on(until("nothing is left", || mark.carriers().is_empty()));
}

/// The words of `--log-shutdown` for one server with these flags, and how long its end took.
async fn shutdown_log(flags: &[&str], wrapped: bool) -> (Vec<String>, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut words: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    words.extend(["--log-shutdown".to_owned(), log.display().to_string()]);
    let tune = |spec: &mut callboard::config::spec::ServerSpec| {
        let callboard::config::spec::TransportSpec::Stdio { command, args, env, .. } = &mut spec.transport
        else {
            panic!("a child")
        };
        if wrapped {
            let script = [r#"-c"#, r#""$0" "$@"; :"#].map(callboard::config::spec::SecretText::new);
            args.splice(..0, script.into_iter().chain([callboard::config::spec::SecretText::new(&*command)]));
            *command = "/bin/sh".to_owned();
            env.clear();
        }
    };
    let host = Yard::new()
        .tuned("s", &words, tune)
        .await
        .plan(|plan| plan.guard = Some(trees::guarding(None)))
        .ready()
        .await;
    let began = Instant::now();
    host.end().await;
    let took = began.elapsed();
    let log = std::fs::read_to_string(log).unwrap_or_default();
    (log.lines().map(str::to_owned).collect(), took)
}

#[tokio::test]
async fn a_stop_is_eof_then_term_then_kill_and_each_once() {
    let step = callboard::transport::stdio::STOP_STEP;
    for wrapped in [false, true] {
        let (polite, stays, stuck, only_eof) = tokio::join!(
            shutdown_log(&[], wrapped),
            shutdown_log(&["--ignore-stdin-eof"], wrapped),
            shutdown_log(&["--ignore-stdin-eof", "--ignore-sigterm"], wrapped),
            shutdown_log(&["--exit-only-on-eof"], wrapped),
        );
        assert_eq!(polite.0, ["eof"]);
        assert_eq!(stays.0, ["eof", "term"]);
        assert!(stays.1 >= step, "{:?}", stays.1);
        assert_eq!(stuck.0, ["eof", "term"]);
        assert!(stuck.1 >= step * 2, "{:?}", stuck.1);
        assert_eq!(only_eof.0, ["eof"], "a second after EOF is time enough");
    }
}

#[tokio::test]
async fn a_hundred_servers_that_ignore_everything_end_together() {
    let mark = Mark::new();
    let stuck = |number: usize| {
        let mut one = SHAPES[2].spec(&mark);
        one.id = format!("s{number}").as_str().into();
        one.hash = format!("stuck-{number}");
        one
    };
    let runtime = Runtime::start(plan((0..100).map(stuck).collect())).await.unwrap();
    for view in runtime.settle(&[], Duration::from_secs(60)).await {
        assert_eq!(view.state, LifeState::Ready, "{view:?}");
    }
    mark.grown(100 * SHAPES[2].processes).await;
    let began = Instant::now();
    runtime.shutdown().await;
    let took = began.elapsed();
    mark.assert_gone("after the shutdown");
    // Each takes seconds: one after the other they would take minutes.
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[tokio::test]
async fn a_call_fails_at_once_when_its_server_dies_while_a_grandchild_holds_the_pipes() {
    let flags = ["--kill-self-mid-call", "--fork-grandchild"].map(str::to_owned);
    let host = Yard::new()
        .with("s", &flags)
        .await
        .plan(|plan| plan.guard = Some(trees::guarding(None)))
        .ready()
        .await;
    let began = Instant::now();
    let error = host.call("s", "t0", &json!({})).await.unwrap_err();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(error.message.contains("signal 9 (SIGKILL)"), "{error}");
    assert_eq!(error.delivery, Delivery::Unknown);
    host.end().await;
}

#[tokio::test]
async fn a_server_that_can_not_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "\0no program").unwrap();
    std::fs::set_permissions(&text, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let with = |name: &str, command: &str, args: &[&str], cwd: Option<&str>| {
        let mut spec = spec(name);
        spec.transport = callboard::config::spec::TransportSpec::Stdio {
            command: command.to_owned(),
            args: args.iter().map(|arg| callboard::config::spec::SecretText::new(*arg)).collect(),
            env: Vec::new(),
            cwd: cwd.map(Into::into),
        };
        spec
    };
    let specs = vec![
        with("a", "no-such-program", &[], None),
        with("b", "/no/such/program", &[], None),
        with("c", "/etc/passwd", &[], None),
        with("d", program().to_str().unwrap(), &[], Some("/no/such/folder")),
        with("e", program().to_str().unwrap(), &[], Some("/etc/passwd")),
        with("f", "/bin/sh", &["-c", "exit 127"], None),
        with("g", "/bin/sh", &["-c", "echo first words >&2; kill -TERM $$"], None),
    ];
    let runtime = Runtime::start(plan(specs)).await.unwrap();
    until("each has a reason", || runtime.status().iter().all(|view| view.why.is_some())).await;
    let why: Vec<String> = runtime.status().into_iter().filter_map(|view| view.why).collect();
    let expected = [
        "command not found: no-such-program (looked up in PATH)",
        "command not found: /no/such/program",
        "/etc/passwd may not be executed: permission denied",
        "the working directory /no/such/folder does not exist",
        "the working directory /etc/passwd is no folder",
        "the command left with exit code 127",
        "the server was ended by signal 15 (SIGTERM); stderr: first words",
    ];
    for (why, expected) in why.iter().zip(expected) {
        assert!(why.contains(expected), "{why:?} has not {expected:?}");
    }
    runtime.shutdown().await;
}
