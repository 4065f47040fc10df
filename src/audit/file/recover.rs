//! Opening a log as it was left: by another process, by one that was killed, or by somebody who
//! touched it. What was not in order becomes a record of its own, and the chain goes on behind it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{AuditError, Files, Place, at, full_files, open, read_head};
use crate::audit::chain::{Key, Sealed, Tip};
use crate::audit::head::{Head, Reading};
use crate::audit::record::{Event, Found, Record};
use crate::time::{rfc3339, wall};

/// Opens the log as others, or a killed process, left it. What was not in order becomes a record.
pub(super) fn catch_up(
    place: &Place,
    key: &Key,
    head_file: &File,
    boot: &str,
    first: &mut Vec<Record>,
) -> Result<Files, AuditError> {
    let path = place.log();
    let log = open(&path, true)?;
    let length = log.metadata().map_err(at(&path))?.len();
    let head_text = read_head(head_file)?;
    let mut found = Found::default();
    let (mut head, from) = match Head::decode(&head_text, key) {
        // Killed in the middle of a rotation: the file that the head speaks of has its full name already.
        Reading::Sound(head) if place.full(head.segment).exists() => {
            (Head { segment: head.tip.seq + 1, bytes: 0, ..head }, 0)
        }
        Reading::Sound(head) => (head, head.bytes),
        reading => {
            let last = last_of_full(place, key)?;
            if length > 0 || last != Tip::START || reading == Reading::Forged {
                let word = if reading == Reading::Missing { "missing" } else { "forged" };
                found.head = Some(word.to_owned());
            }
            (Head { tip: last, segment: last.seq + 1, bytes: 0 }, 0)
        }
    };
    if from > length {
        found.missing = Some(format!("the log ends after {length} bytes, and {from} were written"));
    }
    let rest = read_from(&log, from.min(length)).map_err(at(&path))?;
    let adopted = adopt(&rest, &mut head.tip, key, found.head.is_some());
    let torn = &rest[adopted..];
    head.bytes = length;
    let mut broken_end = !torn.is_empty() || (from > length && !ends_whole(&log, length));
    if torn.is_empty() && adopted > 0 && !rest.ends_with(b"\n") {
        // A genuine line that lacks only its end.
        broken_end = true;
    } else if !torn.is_empty() {
        let line = torn.split(|byte| *byte == b'\n').next().unwrap_or(torn);
        found.torn_bytes = Some(line.len() as u64);
        found.torn_hash = Some(key.arguments(b"torn", line).hex());
        broken_end = !torn.ends_with(b"\n");
    }
    if broken_end {
        (&log).write_all(b"\n").map_err(at(&path))?;
        head.bytes += 1;
    }
    if found != Found::default() {
        first.push(Record { found: Some(found), ..Record::new(Event::Recovered, boot, rfc3339(wall())) });
    }
    Ok(Files { log, head_text, head })
}

/// Goes over the lines that belong to the chain; returns how many bytes they take. Where nothing
/// says which line is the first, any genuine one is.
fn adopt(rest: &[u8], tip: &mut Tip, key: &Key, any: bool) -> usize {
    let mut adopted = 0;
    let mut at = 0;
    for piece in rest.split_inclusive(|byte| *byte == b'\n') {
        at += piece.len();
        let line = piece.strip_suffix(b"\n").unwrap_or(piece);
        let Some(sealed) = Sealed::parse(line).filter(|sealed| sealed.is_genuine(key)) else {
            if any { continue } else { break }
        };
        let follows = sealed.record.seq == tip.seq + 1 && sealed.prev == tip.mac;
        let may_follow = follows || (any && sealed.record.seq > tip.seq);
        if !may_follow {
            break;
        }
        *tip = Tip { seq: sealed.record.seq, mac: sealed.mac };
        adopted = at;
    }
    adopted
}

/// The last genuine line of the newest full file.
fn last_of_full(place: &Place, key: &Key) -> Result<Tip, AuditError> {
    let mut tip = Tip::START;
    if let Some(path) = full_files(place)?.last() {
        let rest = fs::read(path).map_err(at(path))?;
        adopt(&rest, &mut tip, key, true);
    }
    Ok(tip)
}

fn read_from(mut log: &File, from: u64) -> io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    log.seek(SeekFrom::Start(from))?;
    log.read_to_end(&mut rest)?;
    Ok(rest)
}

fn ends_whole(mut log: &File, length: u64) -> bool {
    let mut last = [0];
    length == 0
        || (log.seek(SeekFrom::Start(length - 1)).is_ok()
            && log.read_exact(&mut last).is_ok()
            && last == *b"\n")
}
