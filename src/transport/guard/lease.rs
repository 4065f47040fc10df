//! Floor 2. One file for each guarded server, so that the next start finds what a crash of
//! host and guard together left behind. A process is touched only if its number *and* its
//! start time are those of the lease, or if it is below such a one, or still in the session
//! and process group that these numbers name. Never one of a host that lives. Blocking.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::proc::{self, Identity};
use super::{LeftOver, tree};
use crate::store;

/// Longest lease that is read, bytes.
const LEASE_BYTES_MAX: u64 = 4096;
/// Longest time that one sweep waits for processes to go.
const SWEEP_MAX: Duration = Duration::from_secs(1);
/// Between looks.
const LOOK: Duration = Duration::from_millis(5);
/// How long a guard that has lost its host may take to do its own work.
const GUARD_GRACE: Duration = Duration::from_millis(500);

/// What is in a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    boot: String,
    /// Process numbers of another container mean nothing here.
    space: String,
    host: Identity,
    guard: Identity,
    server: Identity,
}

/// A lease of ours; its file goes with it.
#[derive(Debug)]
pub(super) struct Lease {
    path: PathBuf,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes the lease of one server, 0600, whole or not at all. Not synced to the disk: after a
/// crash of the machine it would mean nothing. `None` when the server has ended already.
pub(super) fn write(folder: &Path, guard: i32, server: i32) -> io::Result<Option<Lease>> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let me = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let Some((guard, server)) = Identity::of(guard).zip(Identity::of(server)) else { return Ok(None) };
    let record = Record {
        boot: proc::boot_id().ok_or_else(gone)?,
        space: proc::number_space().ok_or_else(gone)?,
        host: Identity::of(me).ok_or_else(gone)?,
        guard,
        server,
    };
    store::create_private_dir(folder).map_err(io::Error::other)?;
    let path = folder.join(format!("{}-{}.json", record.guard.pid, record.guard.start));
    let mut file = tempfile::Builder::new().prefix(".lease-").tempfile_in(folder)?;
    file.write_all(&serde_json::to_vec(&record)?)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(Some(Lease { path }))
}

/// Leases whose host is gone, with what is left; leases of an earlier boot count as empty.
fn orphaned(folder: &Path) -> Vec<(PathBuf, Record, Vec<i32>)> {
    let (Some(boot), Some(space)) = (proc::boot_id(), proc::number_space()) else { return Vec::new() };
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let leases = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let read = leases.filter_map(|path| {
        let text = store::read_text(&path, LEASE_BYTES_MAX).ok()??;
        Some((path, serde_json::from_str::<Record>(&text).ok()?))
    });
    let mut found = Vec::new();
    for (path, record) in read {
        if record.boot != boot {
            found.push((path, record, Vec::new()));
        } else if record.space == space && !record.host.is_alive() {
            let left = left_of(&record);
            found.push((path, record, left));
        }
    }
    found
}

/// The living processes of a lease.
fn left_of(record: &Record) -> Vec<i32> {
    let me = i32::try_from(std::process::id()).unwrap_or_default();
    let mut left = BTreeSet::new();
    for one in [record.guard, record.server].into_iter().filter(|one| one.is_alive()) {
        left.insert(one.pid);
        left.extend(tree::below(one.pid).into_iter().map(|(pid, _)| pid));
    }
    left.extend(proc::all().into_iter().filter(|pid| is_member(record, *pid)));
    left.remove(&me);
    left.into_iter().filter(|pid| proc::stat(*pid).is_some_and(|stat| !stat.is_dead())).collect()
}

/// Whether a process is still in the session of this guard and in the group of this server.
/// While it is, the kernel gives neither number to anybody else; that both were given away and
/// mean the same two roles again is ruled out as far as that can be: no other process may have
/// either number.
fn is_member(record: &Record, pid: i32) -> bool {
    let taken = |of: Identity| proc::stat(of.pid).is_some_and(|stat| stat.start != of.start);
    proc::stat(pid).is_some_and(|stat| {
        stat.session == record.guard.pid
            && stat.group == record.server.pid
            && stat.start >= record.guard.start
            && !taken(record.guard)
            && !taken(record.server)
    })
}

/// What crashed hosts left behind.
pub(super) fn look(folder: &Path) -> Vec<LeftOver> {
    let found = orphaned(folder).into_iter();
    found.map(|(_, record, processes)| LeftOver { host: record.host.pid, processes }).collect()
}

/// Ends it and removes the leases of which nothing is left.
pub(super) fn sweep(folder: &Path) -> Vec<LeftOver> {
    let mut found = orphaned(folder);
    let told =
        found.iter().map(|(_, record, left)| LeftOver { host: record.host.pid, processes: left.clone() });
    let told = told.collect();
    let mut waited = Duration::ZERO;
    loop {
        found.retain_mut(|(path, record, left)| {
            if !left.is_empty() {
                *left = left_of(record);
            }
            if left.is_empty() {
                let _ = fs::remove_file(path);
                return false;
            }
            // A guard does this better than we do, unless it is stopped or stuck.
            if waited >= GUARD_GRACE || !record.guard.is_alive() {
                kill(left);
            }
            true
        });
        if found.is_empty() || waited >= SWEEP_MAX {
            return told;
        }
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
}

fn kill(left: &[i32]) {
    for pid in left {
        // What was found a moment ago is looked at again once a descriptor holds it.
        let Some(seen) = Identity::of(*pid) else { continue };
        tree::send(*pid, Signal::KILL, |stat| stat.start == seen.start);
    }
}
