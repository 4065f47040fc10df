//! What verification promises: each break is named, and none is missed.

use rand_like::Dice;

use super::*;
use crate::audit::head::Head;

const LINES: u64 = 2100;

/// Chance from a seed, so that each round can be repeated.
mod rand_like {
    pub(super) struct Dice(pub u64);

    impl Dice {
        pub(super) fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
        }
    }
}

fn key() -> Key {
    Key::new(&[3; 32])
}

fn record(seq: u64) -> Record {
    if seq.is_multiple_of(CHECKPOINT_EVERY) {
        return Record::new(Event::Checkpoint, "boot", "2026-01-01T00:00:00.000Z");
    }
    let event = if seq % 2 == 1 { Event::Started } else { Event::Finished };
    Record {
        call_id: Some(seq.div_ceil(2)),
        server: Some("files".into()),
        tool: Some("write".into()),
        ..Record::new(event, "boot", "2026-01-01T00:00:00.000Z")
    }
}

/// A sound log: its lines with their line ends, and its head.
fn log(lines: u64) -> (Vec<Vec<u8>>, Head) {
    let mut tip = Tip::START;
    let mut all = Vec::new();
    for seq in 1..=lines {
        let mut line = Vec::new();
        tip.seal(&key(), &mut record(seq), &mut line);
        all.push(line);
    }
    let bytes = all.iter().map(|line| line.len() as u64).sum();
    (all, Head { tip, segment: 1, bytes })
}

fn verify(text: &[u8], head: Reading) -> Report {
    let key = key();
    let mut verifier = Verifier::new(&key);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let ended = line.ends_with(b"\n");
        verifier.line(&line[..line.len() - usize::from(ended)], ended);
    }
    verifier.finish(head)
}

/// Kind, line and numbers of a finding.
type Told = (Kind, u64, Option<(u64, u64)>);

fn kinds(report: &Report) -> Vec<Told> {
    report.findings.iter().map(|found| (found.kind, found.line, found.seq)).collect()
}

#[test]
fn a_log_that_nobody_touched_is_whole() {
    let (lines, head) = log(LINES);
    let report = verify(&lines.concat(), Reading::Sound(head));
    assert_eq!(kinds(&report), []);
    assert!(report.is_whole());
    assert_eq!((report.genuine, report.tip), (LINES, Some(head.tip)));
    assert!(verify(b"", Reading::Missing).is_whole());
}

#[test]
fn each_kind_of_break_is_named_with_its_line_and_number() {
    let (lines, head) = log(20);
    let sound = Reading::Sound(head);
    let with = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        kinds(&verify(&lines.concat(), sound))
    };
    assert_eq!(with(&|lines| lines[4][20] ^= 1), [(Kind::Edited, 5, Some((5, 5)))]);
    assert_eq!(with(&|lines| drop(lines.drain(4..6))), [(Kind::Deleted, 5, Some((5, 6)))]);
    assert_eq!(with(&|lines| lines.swap(4, 5)), [(Kind::Swapped, 6, Some((5, 5)))]);
    assert_eq!(with(&|lines| lines.insert(4, b"{}\n".to_vec())), [(Kind::Inserted, 5, None)]);
    assert_eq!(with(&|lines| lines.insert(4, lines[2].clone())), [(Kind::Inserted, 5, Some((3, 3)))]);
    assert_eq!(with(&|lines| lines.truncate(17)), [(Kind::Truncated, 17, Some((18, 20)))]);
    assert_eq!(with(&|lines| lines.clear()), [(Kind::Truncated, 0, Some((1, 20)))]);
    let forged = br#"{"v":1,"seq":5,"event":"checkpoint"}"#;
    assert_eq!(
        with(&|lines| lines.insert(4, [&forged[..], b"\n"].concat())),
        [(Kind::ForgedCheckpoint, 5, None)]
    );
    assert_eq!(kinds(&verify(&lines.concat(), Reading::Missing)), [(Kind::HeadMissing, 0, None)]);
    assert_eq!(kinds(&verify(&lines.concat(), Reading::Forged)), [(Kind::HeadForged, 0, None)]);
}

#[test]
fn two_writers_with_the_key_are_told_apart_from_forgers() {
    let (lines, head) = log(10);
    let mut fork = Tip { seq: 5, mac: Sealed::parse(&lines[4][..lines[4].len() - 1]).unwrap().mac };
    let mut other = Vec::new();
    fork.seal(&key(), &mut Record::new(Event::TrustApproved, "other", "t"), &mut other);
    let mut with = lines.clone();
    with.insert(7, other.clone());
    assert_eq!(kinds(&verify(&with.concat(), Reading::Sound(head))), [(Kind::SecondWriter, 8, Some((6, 6)))]);
    // The other one wins, and the first goes on with what it believes to be the last line.
    let mut with = lines;
    with[5] = other;
    assert_eq!(kinds(&verify(&with.concat(), Reading::Sound(head))), [(Kind::SecondWriter, 7, Some((7, 7)))]);
}

#[test]
fn a_checkpoint_stands_where_it_belongs_and_nowhere_else() {
    let mut tip = Tip { seq: 998, mac: super::super::chain::Mac::ZERO };
    let mut text = Vec::new();
    tip.seal(&key(), &mut Record::new(Event::Checkpoint, "b", "t"), &mut text);
    tip.seal(&key(), &mut Record::new(Event::Started, "b", "t"), &mut text);
    let head = Head { tip, segment: 999, bytes: 0 };
    let found = kinds(&verify(&text, Reading::Sound(head)));
    assert_eq!(found[0], (Kind::ForgedCheckpoint, 1, Some((999, 999))));
    assert_eq!(found[1], (Kind::ForgedCheckpoint, 2, Some((1000, 1000))));
    assert_eq!(found[2], (Kind::Deleted, 1, Some((1, 998))), "the beginning is gone");
}

#[test]
fn a_start_without_an_end_is_unknown_and_no_break() {
    let (lines, head) = log(7);
    let report = verify(&lines.concat(), Reading::Sound(head));
    assert!(report.is_whole());
    let unknown: Vec<_> = report.unknown.iter().map(|one| (one.line, one.start.call_id)).collect();
    assert_eq!((unknown, report.unknown_total), (vec![(7, Some(4))], 1));
}

#[test]
fn a_torn_last_line_is_told_and_is_no_break_unless_the_head_knew_it() {
    let (lines, head) = log(8);
    let (before, _) = log(7);
    let mut torn = lines.concat();
    torn.truncate(torn.len() - 30);
    let (_, head_before) = log(7);
    let report = verify(&torn, Reading::Sound(head_before));
    assert_eq!(kinds(&report), [(Kind::Torn, 8, None)]);
    assert!(report.is_whole());
    assert!(!verify(&torn, Reading::Sound(head)).is_whole(), "the head knew the whole line");

    // The next writer says what it found, and what it found stays as it is.
    let rest = &torn[before.concat().len()..];
    let found = Found {
        torn_bytes: Some(rest.len() as u64),
        torn_hash: Some(key().arguments(b"torn", rest).hex()),
        ..Found::default()
    };
    let mut tip = head_before.tip;
    let mut text = [torn.as_slice(), b"\n"].concat();
    let recovered = Record { found: Some(found), ..Record::new(Event::Recovered, "b", "t") };
    tip.seal(&key(), &mut recovered.clone(), &mut text);
    let head = Reading::Sound(Head { tip, ..head_before });
    let report = verify(&text, head);
    assert_eq!(kinds(&report), [(Kind::Torn, 8, None)]);
    assert!(report.is_whole());
    let at = before.concat().len() + 5;
    text[at] ^= 1;
    assert!(!verify(&text, head).is_whole(), "a torn line can't be changed either");
}

#[test]
fn what_is_found_is_bounded_and_counted() {
    let text = b"{}\n".repeat(BREAKS_MAX * 3);
    let report = verify(&text, Reading::Missing);
    assert!(report.findings.len() <= BREAKS_MAX);
    assert!(report.breaks() >= 3 * BREAKS_MAX as u64);
}

/// One change of somebody without key and head file.
fn touch(dice: &mut Dice, lines: &[Vec<u8>]) -> (&'static str, Vec<u8>) {
    let mut lines = lines.to_vec();
    let at = dice.below(lines.len());
    let what = match dice.below(8) {
        0 => {
            let byte = dice.below(lines[at].len());
            let old = lines[at][byte];
            lines[at][byte] = old ^ u8::try_from(1 + dice.below(255)).unwrap();
            "a byte changed"
        }
        1 => {
            let byte = dice.below(lines[at].len());
            lines[at].remove(byte);
            "a byte removed"
        }
        2 => {
            let byte = dice.below(lines[at].len());
            lines[at].insert(byte, u8::try_from(dice.below(256)).unwrap());
            "a byte inserted"
        }
        3 => {
            let to = (at + 1 + dice.below(12)).min(lines.len());
            lines.drain(at..to);
            "lines deleted"
        }
        4 => {
            let other = (at + 1 + dice.below(lines.len() - 1)) % lines.len();
            lines.swap(at, other);
            "lines swapped"
        }
        5 => {
            let mut text = lines.concat();
            text.truncate(dice.below(text.len()));
            return ("the end cut off", text);
        }
        6 => {
            let copy = lines[dice.below(lines.len())].clone();
            lines.insert(at, copy);
            "a copy inserted"
        }
        _ => {
            // The right number and the right mac before it, sealed with another key.
            let mut forged = Vec::new();
            let before = lines[..at].last().and_then(|line| Sealed::parse(&line[..line.len() - 1]));
            let mut tip = before.map_or(Tip::START, |line| Tip { seq: line.record.seq, mac: line.mac });
            tip.seal(&Key::new(&[9; 32]), &mut record(at as u64 + 1), &mut forged);
            if dice.below(2) == 0 {
                lines[at] = forged;
                "a forged line in place of one"
            } else {
                lines.insert(at, forged);
                "a forged line inserted"
            }
        }
    };
    (what, lines.concat())
}

#[test]
fn ten_thousand_changes_by_somebody_without_key_and_head_are_all_found() {
    let (lines, head) = log(24);
    let sound = lines.concat();
    let mut dice = Dice(20_261_130);
    let mut missed = Vec::new();
    for round in 0..10_000 {
        let (what, text) = touch(&mut dice, &lines);
        if text != sound && verify(&text, Reading::Sound(head)).is_whole() {
            missed.push((round, what));
        }
    }
    assert_eq!(missed, []);
}
