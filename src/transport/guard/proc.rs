//! Floor 2. What `/proc` says about processes: one line of it as a value, and who is who.
//! Reads, never signals.

use std::fs;

use serde::{Deserialize, Serialize};

/// One process for all time, as far as one boot goes: a number may be used again, a number
/// with its start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Identity {
    pub pid: i32,
    /// Clock ticks between boot and start.
    pub start: u64,
}

impl Identity {
    /// The process that has this number now.
    pub(super) fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|stat| Self { pid, start: stat.start })
    }

    /// Whether it is there and no zombie.
    pub(super) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && !stat.is_dead())
    }
}

/// The fields of `/proc/PID/stat` that we go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub name: String,
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    pub start: u64,
}

impl Stat {
    /// A zombie, or nearly gone.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The stat of a process that is there, zombies too.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// `PID (NAME) STATE PPID PGRP SESSION …`, where NAME may hold anything, also brackets.
fn parse_stat(line: &str) -> Option<Stat> {
    let (head, rest) = line.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // The start time is field 22; the session was field 6.
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat { name, state, parent, group, session, start })
}

/// The children of a process, zombies too. The kernel may leave some out while others end, so
/// an empty answer proves nothing.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for task in tasks.flatten() {
        match fs::read_to_string(task.path().join("children")) {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            // A kernel without these lists; or the task has just ended, and the answer is the same.
            Err(_) => return children_by_looking_at_all(pid),
        }
    }
    found
}

fn children_by_looking_at_all(parent: i32) -> Vec<i32> {
    all().into_iter().filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == parent)).collect()
}

/// Every process that can be seen.
pub(super) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What changes with each boot.
pub(super) fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// Where our process numbers mean something: a container has its own.
pub(super) fn number_space() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok().map(|link| link.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let tail = "S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000";
        for name in ["sh", "a b", "a) S 1 (", "((", ""] {
            let stat = parse_stat(&format!("42 ({name}) {tail}")).unwrap();
            assert_eq!(
                (stat.name.as_str(), stat.state, stat.parent, stat.group, stat.session, stat.start),
                (name, 'S', 7, 8, 9, 987_654)
            );
        }
        assert_eq!(parse_stat("42 (sh) S 7 8"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_is_itself_and_no_other() {
        let me = i32::try_from(std::process::id()).unwrap();
        let identity = Identity::of(me).unwrap();
        assert!(identity.is_alive());
        assert!(!Identity { start: identity.start + 1, ..identity }.is_alive());
        assert!(all().contains(&me));
        assert!(boot_id().is_some_and(|id| id.len() == 36));
        assert!(number_space().is_some());
    }
}
