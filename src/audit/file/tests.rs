//! What the files of a log promise: several writers, one chain; whatever a killed one leaves behind.

use super::*;
use crate::audit::read::snapshot;
use crate::audit::verify::{Kind, Report};

fn place(folder: &tempfile::TempDir) -> Place {
    Place { folder: folder.path().join("audit"), file_max: 1 << 20 }
}

fn one() -> Record {
    Record { call_id: Some(1), server: Some("s".into()), ..Record::new(Event::Refused, "b", "t") }
}

fn write(ledger: &mut Ledger, lines: usize) {
    ledger.append(&mut vec![one(); lines], false).unwrap();
}

fn verified(place: &Place) -> Report {
    snapshot(place).unwrap().verify(place).unwrap()
}

fn kinds(report: &Report) -> Vec<Kind> {
    report.findings.iter().map(|found| found.kind).collect()
}

#[test]
fn two_writers_take_turns_and_leave_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    let (mut one, mut other) =
        (Ledger::new(place.clone(), "a".into()), Ledger::new(place.clone(), "b".into()));
    for round in 0..20 {
        write(&mut one, 1 + round % 3);
        write(&mut other, 1);
    }
    let report = verified(&place);
    assert_eq!((kinds(&report), report.genuine), (vec![], 59));
}

#[test]
fn many_writers_at_once_leave_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    std::thread::scope(|scope| {
        for name in 0..4 {
            let place = place.clone();
            scope.spawn(move || {
                let mut ledger = Ledger::new(place, name.to_string());
                (0..100).for_each(|_| write(&mut ledger, 1));
            });
        }
    });
    let report = verified(&place);
    assert_eq!((kinds(&report), report.genuine), (vec![], 400));
}

#[test]
fn a_log_is_free_only_where_a_line_waits_for_nothing_and_is_held_then() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place { file_max: 300_000, ..place(&folder) };
    let mut ledger = Ledger::new(place.clone(), "a".into());
    assert!(!ledger.is_free(1), "it has to be opened");
    write(&mut ledger, 10);
    assert!(ledger.is_free(1));
    let other = File::open(place.head()).unwrap();
    assert!(other.try_lock().is_err(), "after a yes the place is held");
    write(&mut ledger, 1);
    other.try_lock().unwrap();
    assert!(!ledger.is_free(1), "somebody else writes");
    other.unlock().unwrap();
    assert!(!ledger.is_free(1000), "a checkpoint is due");
    write(&mut ledger, 985);
    assert!(!ledger.is_free(10), "a checkpoint is due");
    write(&mut ledger, 600);
    assert!(!ledger.is_free(1), "the file is full");
    assert_eq!(kinds(&verified(&place)), vec![]);
}

#[test]
#[cfg(unix)]
fn every_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    write(&mut Ledger::new(place.clone(), "a".into()), 1);
    for path in [place.log(), place.head(), place.key()] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
    }
    assert_eq!(fs::metadata(&place.folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_full_file_is_kept_under_another_name_and_the_chain_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place { file_max: 2000, ..place(&folder) };
    let mut ledger = Ledger::new(place.clone(), "a".into());
    (0..30).for_each(|_| write(&mut ledger, 1));
    assert!(full_files(&place).unwrap().len() > 2);
    assert!(verified(&place).is_whole());
    // Another writer that has the old file open follows.
    let mut other = Ledger::new(place.clone(), "b".into());
    write(&mut other, 1);
    (0..10).for_each(|_| write(&mut ledger, 1));
    write(&mut other, 1);
    assert!(verified(&place).is_whole());
    // Without one of its files the log is not whole.
    fs::remove_file(&full_files(&place).unwrap()[1]).unwrap();
    assert_eq!(kinds(&verified(&place)), [Kind::Deleted]);
}

#[test]
fn a_writer_that_was_killed_between_the_steps_of_a_rotation_breaks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    write(&mut Ledger::new(place.clone(), "a".into()), 5);
    fs::rename(place.log(), place.full(1)).unwrap();
    write(&mut Ledger::new(place.clone(), "b".into()), 5);
    let report = verified(&place);
    assert_eq!((kinds(&report), report.genuine), (vec![], 10));
}

#[test]
fn lines_that_were_written_and_not_yet_counted_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    write(&mut Ledger::new(place.clone(), "a".into()), 3);
    let head = fs::read(place.head()).unwrap();
    write(&mut Ledger::new(place.clone(), "a".into()), 3);
    fs::write(place.head(), head).unwrap();
    write(&mut Ledger::new(place.clone(), "b".into()), 1);
    let report = verified(&place);
    assert_eq!((kinds(&report), report.genuine), (vec![], 7));
}

#[test]
fn a_torn_last_line_is_recognised_wherever_it_was_torn() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    write(&mut Ledger::new(place.clone(), "a".into()), 3);
    let (log, head) = (fs::read(place.log()).unwrap(), fs::read(place.head()).unwrap());
    write(&mut Ledger::new(place.clone(), "a".into()), 1);
    let more = fs::read(place.log()).unwrap();
    for cut in log.len() + 1..more.len() {
        fs::write(place.log(), &more[..cut]).unwrap();
        fs::write(place.head(), &head).unwrap();
        assert!(verified(&place).is_whole(), "before the next writer, cut at {cut}");
        write(&mut Ledger::new(place.clone(), "b".into()), 1);
        let report = verified(&place);
        let torn = if cut == more.len() - 1 { vec![] } else { vec![Kind::Torn] };
        assert_eq!((report.is_whole(), kinds(&report)), (true, torn), "cut at {cut}");
    }
}

#[test]
fn what_was_cut_off_stays_found_after_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    write(&mut Ledger::new(place.clone(), "a".into()), 10);
    let log = fs::read(place.log()).unwrap();
    let head = fs::read(place.head()).unwrap();
    for cut in [0, 17, log.len() / 2, log.len() - 1] {
        fs::write(place.log(), &log[..cut]).unwrap();
        fs::write(place.head(), &head).unwrap();
        assert!(!verified(&place).is_whole(), "cut at {cut}");
        write(&mut Ledger::new(place.clone(), "b".into()), 2);
        let whole = verified(&place).is_whole();
        assert_eq!(whole, cut == log.len() - 1, "cut at {cut}: only a line end was mended");
    }
}

#[test]
fn a_head_that_was_removed_or_touched_stays_found_after_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    write(&mut Ledger::new(place.clone(), "a".into()), 5);
    fs::remove_file(place.head()).unwrap();
    write(&mut Ledger::new(place.clone(), "b".into()), 1);
    assert_eq!(kinds(&verified(&place)), [Kind::HeadMissing]);
    fs::write(place.head(), "{}").unwrap();
    write(&mut Ledger::new(place.clone(), "b".into()), 1);
    assert_eq!(kinds(&verified(&place)), [Kind::HeadMissing, Kind::HeadForged]);
}

#[test]
fn files_that_are_taken_away_under_a_writer_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    let mut ledger = Ledger::new(place.clone(), "a".into());
    write(&mut ledger, 5);
    fs::remove_file(place.log()).unwrap();
    write(&mut ledger, 1);
    assert_eq!(kinds(&verified(&place)), [Kind::Deleted]);
    fs::remove_file(place.head()).unwrap();
    write(&mut ledger, 1);
    assert_eq!(kinds(&verified(&place)), [Kind::HeadMissing, Kind::Deleted]);
    fs::remove_dir_all(&place.folder).unwrap();
    write(&mut ledger, 1);
    let report = verified(&place);
    assert_eq!((report.is_whole(), report.genuine), (true, 1), "a new log");
}

#[test]
fn a_log_without_its_key_takes_no_line_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    write(&mut Ledger::new(place.clone(), "a".into()), 1);
    fs::remove_file(place.key()).unwrap();
    let error = Ledger::new(place.clone(), "b".into()).append(&mut [one()], false).unwrap_err();
    assert!(matches!(error, AuditError::NoKey(_)) && error.to_string().contains("bring it back"), "{error}");
    assert!(matches!(snapshot(&place).unwrap().verify(&place), Err(AuditError::NoKey(_))));
}

#[test]
fn a_place_that_can_not_be_written_is_an_error_and_a_later_try_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    fs::write(&place.folder, "a file where the folder should be").unwrap();
    let mut ledger = Ledger::new(place.clone(), "a".into());
    assert!(ledger.append(&mut [one()], false).is_err());
    fs::remove_file(&place.folder).unwrap();
    write(&mut ledger, 1);
    assert!(verified(&place).is_whole());
}

#[test]
fn every_thousandth_line_is_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder);
    let mut ledger = Ledger::new(place.clone(), "a".into());
    (0..7).for_each(|_| write(&mut ledger, 300));
    let report = verified(&place);
    assert_eq!((kinds(&report), report.genuine), (vec![], 2102));
}
