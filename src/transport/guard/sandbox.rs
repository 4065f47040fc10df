//! Floor 2. Confines a stdio server: the host looks up which paths there are (`lay_out`), the
//! stage gives the rest away for ever, for itself and all that comes from it (`enter`). Files,
//! TCP, signals and abstract sockets by Landlock, other sockets by seccomp. What the kernel can't
//! keep is an error: a server never runs with less than its entry asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::wire::Confine;
use crate::policy::sandbox::{Confinement, DEVICES, Powers, SYSTEM, holds, installation};
use crate::transport::StdioLaunch;

/// How the private folder of a confined server begins.
const PRIVATE: &str = "callboard-server-";
/// Most interpreters and links between a command and the program that runs.
const STEPS_MAX: usize = 8;
/// Longest first line of a script that is looked at, bytes (execve(2)).
const SHEBANG_MAX: u64 = 256;
/// Where the kernel says that it has seccomp filters.
const SECCOMP: &str = "/proc/sys/kernel/seccomp/actions_avail";
/// The least that keeps files: with an earlier one any file can still be cut short.
const FILES: ABI = ABI::V3;
/// System calls of the x32 ABI carry this bit.
const X32: i64 = 0x4000_0000;

/// What this kernel can keep. Restricts nothing.
pub(super) fn powers() -> Powers {
    let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = |abi| hard().handle_access(AccessFs::from_all(abi)).and_then(Ruleset::create).is_ok();
    Powers {
        files: files(FILES),
        tcp: hard().handle_access(AccessNet::from_all(ABI::V4)).and_then(Ruleset::create).is_ok(),
        scope: hard().scope(Scope::from_all(ABI::V6)).and_then(Ruleset::create).is_ok(),
        unix: files(ABI::V9),
        sockets: Path::new(SECCOMP).exists(),
    }
}

/// Looks up what a confined server may touch on this disk and makes its private folder, for
/// `TMPDIR` and, without paths of its own, `HOME`. Both are told in `env`. The guard removes it.
pub(super) fn lay_out(
    confinement: &Confinement,
    launch: &StdioLaunch,
    env: &mut Vec<(OsString, OsString)>,
) -> Result<Confine, String> {
    let here = std::env::current_dir().map_err(|error| format!("no working folder: {error}"))?;
    let cwd = launch.cwd.clone().unwrap_or(here);
    let mut writes = BTreeSet::new();
    let mut reads: BTreeSet<PathBuf> = BTreeSet::new();
    if confinement.working {
        let real = real(&cwd)?;
        if let Some(home) = homes(&confinement.homes).find(|home| holds(&real, home)) {
            let (cwd, home) = (cwd.display(), home.display());
            return Err(format!("the working folder {cwd} holds {home}; set `cwd` to a folder of its own"));
        }
        writes.insert(real);
    }
    for (paths, into) in [(&confinement.read, &mut reads), (&confinement.write, &mut writes)] {
        for path in paths {
            into.insert(real(path)?);
        }
    }
    let granted = || reads.iter().chain(&writes);
    for own in homes(&confinement.own) {
        if let Some(path) = granted().find(|path| holds(path, &own) || holds(&own, path)) {
            let (path, own) = (path.display(), own.display());
            return Err(format!("{path} would give it Callboard's own folder {own}; name smaller folders"));
        }
    }
    reads.extend(programs(launch, &cwd));
    let private = tempfile::Builder::new().prefix(PRIVATE).tempdir();
    let private = private.map_err(|error| format!("no private folder: {error}"))?.keep();
    let private = private.canonicalize().unwrap_or(private);
    let named = if confinement.working { &["TMPDIR", "HOME"][..] } else { &["TMPDIR"] };
    for name in named {
        if !confinement.sets.iter().any(|set| set == name) {
            env.retain(|(known, _)| known != name);
            env.push(((*name).into(), private.clone().into_os_string()));
        }
    }
    let list = |paths: BTreeSet<PathBuf>| paths.into_iter().map(PathBuf::into_os_string).collect();
    Ok(Confine { read: list(reads), write: list(writes), private: private.into(), net: confinement.net })
}

fn real(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize()
        .map_err(|error| format!("{}: {error}; create it, or correct the path", path.display()))
}

fn homes(paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()))
}

/// Everything of the disk that the command itself is: the program, the script that its first
/// argument names, what interprets them, and the installations of these.
fn programs(launch: &StdioLaunch, cwd: &Path) -> BTreeSet<PathBuf> {
    let path = launch.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value.as_str());
    let find = |name: &str| -> Option<PathBuf> {
        if name.contains('/') {
            return Some(cwd.join(name)).filter(|path| path.is_file());
        }
        std::env::split_paths(path).map(|folder| cwd.join(folder).join(name)).find(|path| path.is_file())
    };
    let script = launch.args.first().filter(|arg| arg.starts_with('/')).and_then(|arg| find(arg));
    let mut open: Vec<PathBuf> = find(&launch.command).into_iter().chain(script).collect();
    let mut found = BTreeSet::new();
    for _ in 0..STEPS_MAX {
        let Some(program) = open.pop() else { break };
        found.extend(installation(&program));
        if let Ok(real) = program.canonicalize() {
            found.extend(installation(&real));
        }
        open.extend(interpreter(&program).and_then(|name| find(&name)));
    }
    found.retain(|path| path.exists());
    found
}

/// What the first line of a script names to run it, also by way of `env`.
fn interpreter(script: &Path) -> Option<String> {
    let mut head = Vec::new();
    std::fs::File::open(script).ok()?.take(SHEBANG_MAX).read_to_end(&mut head).ok()?;
    let line = String::from_utf8_lossy(head.strip_prefix(b"#!")?).into_owned();
    let mut words = line.lines().next()?.split_whitespace();
    let first = words.next()?;
    let by_env = first.ends_with("/env");
    let mut named = || words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned);
    if by_env { named() } else { Some(first.to_owned()) }
}

/// Gives everything away but this. For the calling thread and all that comes from it, for ever.
pub(super) fn enter(confine: &Confine) -> io::Result<()> {
    // Landlock says which call failed; on the wire there is room for a number only.
    restrict(confine).map_err(|_| io::Error::from(rustix::io::Errno::PERM))?;
    if !confine.net {
        let filter = sockets().map_err(|_| io::Error::from(rustix::io::Errno::OPNOTSUPP))?;
        seccompiler::apply_filter(&filter).map_err(|_| io::Error::from(rustix::io::Errno::OPNOTSUPP))?;
    }
    Ok(())
}

fn restrict(confine: &Confine) -> Result<(), landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(FILES))?;
    if !confine.net {
        rules = rules.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    // What a later kernel can keep beyond that is taken where it is there.
    let rules = rules
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(if confine.net { ABI::V5 } else { ABI::V9 }))?
        .scope(Scope::from_all(ABI::V6))?;
    let mut rules = rules.create()?.set_compatibility(CompatLevel::HardRequirement);
    let read = AccessFs::from_read(FILES);
    // Device nodes are no business of a server, whoever runs it.
    let write = AccessFs::from_all(FILES) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let grants = SYSTEM.iter().map(|path| (Path::new(path), read));
    let grants = grants.chain(confine.read.iter().map(|path| (Path::new(path), read)));
    let devices = DEVICES.iter().map(|path| (Path::new(path), AccessFs::ReadFile | AccessFs::WriteFile));
    let private = [(Path::new(&confine.private), write)];
    let own = confine.write.iter().map(|path| (Path::new(path), write)).chain(private);
    for (path, access) in grants.chain(devices).chain(own) {
        // What is not there, or may not be looked at, is not granted either.
        let Ok(file) = PathFd::new(path) else { continue };
        rules = rules.add_rule(PathBeneath::new(file, fitting(path, access)))?;
    }
    let status = rules.restrict_self()?;
    debug_assert_ne!(status.ruleset, RulesetStatus::NotEnforced);
    Ok(())
}

/// The rights that make sense for what is there.
fn fitting(path: &Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() { access } else { access & AccessFs::from_file(FILES) }
}

/// Refuses every socket but unix ones, and the one interface that could make them unseen.
fn sockets() -> Result<BpfProgram, seccompiler::BackendError> {
    let unix = u64::try_from(libc::AF_UNIX).unwrap_or_default();
    let foreign = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, unix)?;
    let foreign = SeccompRule::new(vec![foreign])?;
    let mut rules = BTreeMap::new();
    for bit in [0, X32] {
        rules.insert(libc::SYS_socket | bit, vec![foreign.clone()]);
        rules.insert(libc::SYS_io_uring_setup | bit, Vec::new());
    }
    let refuse = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Removes the private folder of a server that has left.
pub(super) fn clear(confine: &Confine) {
    let _ = std::fs::remove_dir_all(Path::new(&confine.private));
}
