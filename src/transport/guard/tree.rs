//! Floor 2. The tree below a process, and signals to it. A signal goes to a process that is
//! still where it was seen, never to a number that somebody else has got meanwhile.

use std::collections::BTreeSet;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::proc::{self, Identity};

/// How often one TERM looks again for processes that were started meanwhile.
const PASSES_MAX: usize = 16;

/// Everything below `root`, each with its parent, parents first.
pub(super) fn below(root: i32) -> Vec<(i32, i32)> {
    let (mut found, mut seen, mut open) = (Vec::new(), BTreeSet::from([root]), vec![root]);
    while let Some(parent) = open.pop() {
        for child in proc::children(parent).into_iter().filter(|child| seen.insert(*child)) {
            found.push((child, parent));
            open.push(child);
        }
    }
    found
}

/// TERM to everything below `root` that was not told yet, also to what appears meanwhile.
pub(super) fn term(root: i32, told: &mut BTreeSet<Identity>) {
    for _ in 0..PASSES_MAX {
        let mut all_told = true;
        for (pid, parent) in below(root) {
            if Identity::of(pid).is_some_and(|one| told.insert(one)) {
                all_told = false;
                signal(root, pid, parent, Signal::TERM);
            }
        }
        if all_told {
            return;
        }
    }
}

/// KILL to everything below `root` that is there now. To be repeated until nothing is.
pub(super) fn kill(root: i32) {
    for (pid, parent) in below(root) {
        signal(root, pid, parent, Signal::KILL);
    }
}

/// A process that was a child of `parent`, or has been handed up to `root` since.
fn signal(root: i32, pid: i32, parent: i32, signal: Signal) {
    send(pid, signal, |stat| stat.parent == parent || stat.parent == root);
}

/// Sends a signal to the process of that number if it is the one that is meant. The
/// descriptor is taken first, so that what was checked is what is signalled.
pub(super) fn send(pid: i32, signal: Signal, is_meant: impl Fn(&proc::Stat) -> bool) {
    let Some(number) = Pid::from_raw(pid) else { return };
    let handle = pidfd_open(number, PidfdFlags::empty());
    if !proc::stat(pid).is_some_and(|stat| is_meant(&stat)) {
        return;
    }
    match handle {
        Ok(handle) => {
            let _ = pidfd_send_signal(handle, signal);
        }
        Err(Errno::NOSYS | Errno::MFILE | Errno::NFILE | Errno::PERM) => {
            let _ = kill_process(number, signal);
        }
        Err(_) => {}
    }
}
