//! Floor 2. Process care: every stdio server runs below a small guard process of the same
//! program (`callboard __guard`), which ends the whole tree of the server when the server ends
//! or the host is gone, in whatever way. Linux only; elsewhere, and for an embedding program
//! that names no guard, servers have a process group and nothing more.
//!
//! `host` is this process's side; `keeper` is the guard; `stage` is the step between guard and
//! server (`callboard __exec`); `sandbox` confines it there; `callboard-guard` is both and nothing else, to save memory; `wire` is what they say to each other, `passing` how; `course`
//! decides; `tree` and `proc` look at processes; `lease` survives a crash of all of them.

#[cfg(target_os = "linux")]
mod course;
#[cfg(target_os = "linux")]
pub(super) mod host;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod lease;
#[cfg(target_os = "linux")]
mod passing;
#[cfg(target_os = "linux")]
mod proc;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod wire;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config::spec::{Sandbox, ServerSpec};
use crate::policy::sandbox::{self as policy, Powers};

/// The verb under which the program is a guard.
pub const GUARD_VERB: &str = "__guard";
/// What both sides must agree on; a guard of another version does nothing and leaves. The
/// number behind the sign is raised with every change of `wire`.
#[cfg(target_os = "linux")]
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+2");
/// The small program that is a guard and nothing else, beside `callboard`.
const SMALL: &str = "callboard-guard";
/// The verb under which the program becomes a server: `__exec PID`, PID being its guard's.
pub const EXEC_VERB: &str = "__exec";
/// Where a program finds itself, whatever was done to its file since it started.
const SELF: &str = "/proc/self/exe";

/// How servers are guarded. With it this process becomes a *child subreaper*: what a killed
/// guard leaves behind is handed to it, and ended by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarding {
    /// A program that hands its words to [`answer`] before anything else: `callboard-guard`, or
    /// `callboard` itself.
    pub program: PathBuf,
    /// Another one, for when that is not there or is of another version.
    pub spare: Option<PathBuf>,
    /// Folder of the leases, by which the next start finds what a crash of host *and* guard
    /// left behind; `None` keeps none.
    pub leases: Option<PathBuf>,
}

impl Guarding {
    /// The guard beside this very program, or else this program itself, with leases below the
    /// state folder if there is one. Only for a program that calls [`answer`]. `None` where
    /// there are no guards.
    pub fn of_this_program(home: Option<&Path>) -> Option<Self> {
        let this = PathBuf::from(SELF);
        let small =
            std::env::current_exe().ok().map(|exe| exe.with_file_name(SMALL)).filter(|exe| exe.is_file());
        let (program, spare) = match small {
            Some(small) => (small, Some(this)),
            None => (this, None),
        };
        cfg!(target_os = "linux").then(|| Self { program, spare, leases: home.map(leases) })
    }
}

/// Folder of the leases below the state folder.
pub fn leases(home: &Path) -> PathBuf {
    home.join("run").join("leases")
}

/// Plays guard or stage if the words of this process ask for it. To be called before anything
/// else, so that a guard costs a millisecond and some hundred KiB.
pub fn answer(argv: &[OsString]) -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    match argv {
        [_, verb, version] if verb == GUARD_VERB && version == VERSION => return Some(keeper::main()),
        [_, verb, guard] if verb == EXEC_VERB => return Some(stage::main(guard)),
        _ => {}
    }
    let _ = argv;
    None
}

/// The level of confinement that a server of this entry really gets on this machine, in words, or
/// why it is not started; `None` where it asks for none.
pub fn level(spec: &ServerSpec) -> Option<Result<String, String>> {
    (spec.sandbox != Sandbox::Off).then(|| policy::level(spec, powers()))?
}

/// What this machine can keep of a sandbox.
pub fn powers() -> Powers {
    #[cfg(target_os = "linux")]
    return sandbox::powers();
    #[cfg(not(target_os = "linux"))]
    Powers::default()
}

/// What a crash of a host and of a guard left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// The host that is gone.
    pub host: i32,
    /// Processes that are still there; empty when only the lease is.
    pub processes: Vec<i32>,
}

/// What crashed hosts left behind, without touching it. Blocking.
pub fn left_overs(folder: &Path) -> Vec<LeftOver> {
    #[cfg(target_os = "linux")]
    return lease::look(folder);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        Vec::new()
    }
}

/// Ends what crashed hosts left behind and removes their leases; a process counts only if its
/// id *and* its start time are those of the lease. Blocking, for a second at most.
pub fn end_left_overs(folder: &Path) -> Vec<LeftOver> {
    #[cfg(target_os = "linux")]
    return lease::sweep(folder);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        Vec::new()
    }
}
