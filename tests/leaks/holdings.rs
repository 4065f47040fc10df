//! What a process holds, and how its tests come to be alone: descriptors, threads, children,
//! zombies, tasks, memory.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use callboard::runtime::Runtime;
use callboard::view::{LifeState, ServerView};

use crate::support::bad::{PATIENCE, memory};
use crate::support::spec;
use crate::trees::{children, guarding, id, plan};

/// One mebibyte, in bytes.
pub const MIB: u64 = 1 << 20;
/// How a line with a figure begins.
const FIGURE: &str = "figure: ";

/// Prints a figure, also from a process of its own.
pub fn figure(text: &str) {
    println!("{FIGURE}{text}");
}

/// Runs the body in a process of its own, while no other test of this binary runs. `test` is the
/// path of the test that calls this.
pub fn alone(test: &str, body: impl Future<Output = ()>) {
    const ALONE: &str = "--exact";
    static ONE: Mutex<()> = Mutex::new(());
    if std::env::args().any(|word| word == ALONE) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        // What looks each second would keep every thread that was ever needed at once, in turns.
        let runtime = runtime.worker_threads(2).thread_keep_alive(Duration::from_millis(100)).enable_all();
        runtime.build().unwrap().block_on(body);
        return;
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let out = Command::new(std::env::current_exe().unwrap()).args([test, ALONE, "--nocapture"]).output();
    let out = out.unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && told.contains("1 passed"), "{told}");
    told.lines().filter_map(|line| line.split_once(FIGURE)).for_each(|(_, text)| figure(text));
}

/// What this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    pub descriptors: usize,
    pub threads: usize,
    pub children: usize,
    pub zombies: usize,
    pub tasks: usize,
}

impl Holdings {
    pub fn now() -> Self {
        let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        let children = children(id(std::process::id()));
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            children: children.len(),
            zombies: children.iter().filter(|(_, state)| *state == 'Z').count(),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// Whether nothing is held that was not held before.
    fn within(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.children <= before.children
            && self.zombies <= before.zombies
            && self.tasks <= before.tasks
    }

    /// Waits until no more is held than before: what is on its way out may still leave, and threads
    /// that nobody uses stay for a while.
    pub async fn settle(before: &Self, what: &str) -> Self {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        let began = Instant::now();
        loop {
            look.tick().await;
            let now = Self::now();
            if now.within(before) {
                return now;
            }
            assert!(began.elapsed() < 2 * PATIENCE, "{what}: before {before:?}, now {now:?}");
        }
    }

    /// What is held as soon as nothing changes any more: after a warm-up.
    pub async fn quiet() -> Self {
        let mut look = tokio::time::interval(Duration::from_millis(100));
        let (mut last, mut same) = (Self::now(), 0);
        for _ in 0..300 {
            look.tick().await;
            let now = Self::now();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            // Longer than a thread without work stays.
            if same == 110 {
                break;
            }
        }
        last
    }
}

/// Resident memory now, in bytes.
pub fn resident() -> u64 {
    memory("VmRSS")
}

/// The middle and the worst but one in a hundred, and the worst.
pub fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    format!("p50 {:.2?}, p99 {:.2?}, max {:.2?} of {}", at(50), at(99), at(100), times.len())
}

/// A guarded server with these flags and no trace: what badmcp can do when nobody looks.
pub fn server(name: &str, flags: &[String]) -> callboard::config::spec::ServerSpec {
    use callboard::config::spec::{SecretText, TransportSpec};
    let mut one = spec(name);
    one.transport = TransportSpec::Stdio {
        command: crate::support::bad::program().display().to_string(),
        args: flags.iter().map(SecretText::new).collect(),
        env: Vec::new(),
        cwd: None,
    };
    one
}

/// Restarted as often and as soon as it takes, and never refused by the breaker.
pub fn lively(spec: &mut callboard::config::spec::ServerSpec) {
    let soon = Duration::from_millis(1);
    spec.restart.max = 0;
    (spec.restart.min_delay, spec.restart.max_delay) = (soon, soon);
    spec.breaker.failures = 0;
}

/// A runtime on guarded servers, ready.
pub async fn running(specs: Vec<callboard::config::spec::ServerSpec>) -> Runtime {
    let mut plan = plan(specs);
    plan.guard = Some(guarding(None));
    let runtime = Runtime::start(plan).await.unwrap();
    for view in runtime.settle(&[], PATIENCE).await {
        assert_eq!(view.state, LifeState::Ready, "{view:?}");
    }
    runtime
}

/// The view of a server.
pub fn view(runtime: &Runtime, server: &str) -> ServerView {
    runtime.status().into_iter().find(|view| view.id.as_str() == server).unwrap()
}

/// Waits until a server is ready and listed with a process that is not `old`.
pub async fn fresh(runtime: &Runtime, server: &str, old: Option<u32>) -> ServerView {
    let mut watch = runtime.watch(&[server.into()]);
    let wait = async {
        loop {
            let view = watch.look().remove(0);
            if view.state == LifeState::Ready && view.listed && view.pid.is_some() && view.pid != old {
                return view;
            }
            watch.changed().await;
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(view) => view,
        Err(_) => panic!("not ready again: {:?}", view(runtime, server)),
    }
}
