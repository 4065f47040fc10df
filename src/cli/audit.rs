//! Floor 5. `audit verify`, `tail`, `export`: reads the log of operations, and says what it proves.
//! Never writes there. Called by `cli::run`.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Done;
use super::audit_args::{AuditExport, AuditFilter, AuditForm, AuditTail, AuditVerb, AuditVerify};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::{Answer, Tone, write_stdout};
use super::session::interrupted;
use super::table::{Column, Field, table};
use super::text::{count, quoted};
use crate::audit::chain::{Mac, Sealed};
use crate::audit::file::{AuditError, Place};
use crate::audit::read::{Snapshot, each_line, snapshot};
use crate::audit::record::{Event, Record};
use crate::audit::verify::{Kind, Report};
use crate::time::{rfc3339, wall};

/// Names and versions of the shapes of the answers.
pub const VERIFY: &str = "callboard.audit_verify/1";
/// See [`VERIFY`].
pub const TAIL: &str = "callboard.audit_tail/1";
/// See [`VERIFY`].
pub const EXPORT: &str = "callboard.audit_export/1";

/// Calls without an end that a person is shown.
const UNKNOWN_SHOWN_MAX: usize = 10;
/// How often a log that is followed is looked at.
const FOLLOW_STEP: Duration = Duration::from_millis(200);

const PROVES: &str = "\
What this proves: nobody without the key has changed, removed, moved or added a line, and nobody \
without the head file has cut the end off. Who can read the key and write the folder can write any log: \
keep the last line's number and mac elsewhere, and check them later with --expect.";

/// `callboard audit …`
pub async fn audit(ctx: &Ctx, verb: &AuditVerb) -> Result<Done, Failure> {
    let place = Place::below(ctx.home()?, ctx.loaded.settings.audit_file_max as u64);
    match verb {
        AuditVerb::Verify(args) => verify(ctx, &place, args).map(Done::from),
        AuditVerb::Tail(args) => tail(ctx, &place, args).await,
        AuditVerb::Export(args) => export(ctx, &place, args),
    }
}

fn unreadable(error: &AuditError) -> Failure {
    Failure::io(Exit::Config, format!("the audit log can't be read: {error}"))
}

fn look(place: &Place) -> Result<Snapshot, Failure> {
    snapshot(place).map_err(|error| unreadable(&error))
}

#[derive(Serialize)]
struct FindingView<'a> {
    kind: &'static str,
    is_break: bool,
    file: &'a str,
    line: u64,
    first_seq: Option<u64>,
    last_seq: Option<u64>,
    meaning: &'static str,
}

#[derive(Serialize)]
struct LastView {
    seq: u64,
    mac: String,
}

#[derive(Serialize)]
struct VerifyView<'a> {
    whole: bool,
    folder: String,
    files: Vec<&'a str>,
    lines: u64,
    genuine: u64,
    last: Option<LastView>,
    breaks: u64,
    findings: Vec<FindingView<'a>>,
    unknown_total: u64,
    unknown: Vec<&'a Record>,
    proves: &'static str,
}

fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::Edited => "a line was changed",
        Kind::Deleted => "lines are gone",
        Kind::Swapped => "a line is not where it was written",
        Kind::Inserted => "a line that does not belong there",
        Kind::Truncated => "the end is gone: the head file knows later lines",
        Kind::ForgedCheckpoint => "a checkpoint that is none, or none where one belongs",
        Kind::SecondWriter => "two writers with the key continued the same line",
        Kind::HeadMissing => "the head file is, or was, gone",
        Kind::HeadForged => "the head file was written by another hand",
        Kind::Torn => "a line that its writer could not finish, as when it is killed",
    }
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("audit.jsonl")
}

/// `audit verify`
fn verify(ctx: &Ctx, place: &Place, args: &AuditVerify) -> Result<Answer, Failure> {
    let expected = args.expect.as_deref().map(expected).transpose()?;
    let log = look(place)?;
    let report = log.verify(place).map_err(|error| unreadable(&error))?;
    let has_expected = expected.is_none_or(|expected| has_line(&log, expected));
    let files: Vec<&str> = log.files.iter().map(|(path, _)| name(path)).collect();
    let whole = report.is_whole() && has_expected;
    let view = view_of(place, &report, &files, whole);
    let mut human = text_of(ctx, &report, &files, &view.findings);
    if !has_expected {
        human.push_str(
            "\n\nThe log does not have the line that was expected: it is another log, or was rewritten.",
        );
    }
    human.push_str(&format!("\n\n{PROVES}"));
    let exit = if whole { Exit::Ok } else { Exit::Unhealthy };
    Ok(Answer::new(VERIFY, &view, human)?.ending(exit))
}

fn expected(text: &str) -> Result<(u64, Mac), Failure> {
    let parsed =
        text.split_once(':').and_then(|(seq, mac)| Some((seq.parse().ok()?, Mac::parse(mac.as_bytes())?)));
    parsed.ok_or_else(|| {
        Failure::usage(format!("{} is not a number and a mac", quoted(text)))
            .fix("write SEQ:MAC, as `callboard audit verify` tells them of the last line")
    })
}

fn has_line(log: &Snapshot, (seq, mac): (u64, Mac)) -> bool {
    let mut has = false;
    let read = log.each(|line| {
        has |= Sealed::parse(line).is_some_and(|sealed| sealed.record.seq == seq && sealed.mac == mac);
    });
    read.is_ok() && has
}

fn view_of<'a>(place: &Place, report: &'a Report, files: &[&'a str], whole: bool) -> VerifyView<'a> {
    let finding = |found: &crate::audit::verify::Finding| FindingView {
        kind: found.kind.as_str(),
        is_break: found.kind.is_break(),
        file: files.get(found.file).copied().unwrap_or("head"),
        line: found.line,
        first_seq: found.seq.map(|(first, _)| first),
        last_seq: found.seq.map(|(_, last)| last),
        meaning: meaning(found.kind),
    };
    VerifyView {
        whole,
        folder: place.folder.display().to_string(),
        files: files.to_vec(),
        lines: report.lines,
        genuine: report.genuine,
        last: report.tip.map(|tip| LastView { seq: tip.seq, mac: tip.mac.hex() }),
        breaks: report.breaks(),
        findings: report.findings.iter().map(finding).collect(),
        unknown_total: report.unknown_total,
        unknown: report.unknown.iter().map(|unknown| &unknown.start).collect(),
        proves: PROVES,
    }
}

fn text_of(ctx: &Ctx, report: &Report, files: &[&str], findings: &[FindingView<'_>]) -> String {
    if report.lines == 0 && report.is_whole() {
        return "Nothing was written yet.".to_owned();
    }
    let size = format!("{} in {}", count(plain(report.lines), "line"), count(files.len(), "file"));
    let mut text = match report.breaks() {
        0 => format!("The log is whole: {size}."),
        1 => format!("The log is broken in one place: {size}."),
        breaks => format!("The log is broken in {breaks} places: {size}."),
    };
    if let Some(tip) = report.tip {
        text.push_str(&format!("\nLast line {}:{}", tip.seq, tip.mac.hex()));
    }
    if !findings.is_empty() {
        let rows: Vec<Vec<Field>> = findings
            .iter()
            .map(|found| {
                let tone = if found.is_break { Tone::Bad } else { Tone::Dim };
                let seq = match (found.first_seq, found.last_seq) {
                    (Some(first), Some(last)) if first != last => format!("{first}–{last}"),
                    (first, _) => first.map(|seq| seq.to_string()).unwrap_or_default(),
                };
                let line = if found.line > 0 { found.line.to_string() } else { String::new() };
                vec![
                    Field::toned(found.kind, tone),
                    Field::new(found.file),
                    Field::new(line),
                    Field::new(seq),
                    Field::new(found.meaning),
                ]
            })
            .collect();
        let columns = [
            Column::wide("break", 9),
            Column::text("file"),
            Column::number("line"),
            Column::number("seq"),
            Column::text("meaning"),
        ];
        text.push_str(&format!("\n\n{}", table(&columns, &rows, ctx.style())));
        let more = report.findings_total - findings.len() as u64;
        if more > 0 {
            text.push_str(&format!("\nand {more} more"));
        }
    }
    if report.unknown_total > 0 {
        text.push_str(&format!(
            "\n\n{} started and not ended in the log: running, or its program was killed, and whether it ran is not known.\n",
            count(plain(report.unknown_total), "call")
        ));
        let last = report.unknown.iter().rev().take(UNKNOWN_SHOWN_MAX).rev();
        let rows: Vec<Vec<Field>> = last.map(|unknown| row(ctx, &unknown.start)).collect();
        text.push_str(&table(&COLUMNS, &rows, ctx.style()));
    }
    text
}

fn plain(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

const COLUMNS: [Column; 7] = [
    Column::wide("time", 24),
    Column::wide("event", 8),
    Column::text("server"),
    Column::text("item"),
    Column::text("outcome"),
    Column::text("rule or error"),
    Column::number("ms"),
];

/// One record for a person.
fn row(ctx: &Ctx, record: &Record) -> Vec<Field> {
    let text = |text: &Option<String>| Field::new(ctx.clean(text.as_deref().unwrap_or_default()));
    let outcome = record.outcome.as_deref().unwrap_or_default();
    let tone = match outcome {
        "ok" => Tone::Good,
        "" => Tone::Plain,
        "refused" | "abandoned" => Tone::Warn,
        _ => Tone::Bad,
    };
    let why = match record.event {
        Event::Recovered
        | Event::Lost
        | Event::TrustApproved
        | Event::TrustRevoked
        | Event::RuleAllowed
        | Event::RuleRevoked
        | Event::PinAccepted => &record.reason,
        Event::Finished => &record.error_type,
        _ => &record.decided_by,
    };
    vec![
        Field::new(ctx.clean(&record.ts)),
        Field::new(record.event.as_str()),
        text(&record.server),
        text(&record.tool),
        Field::toned(ctx.clean(outcome), tone),
        text(why),
        Field::new(record.duration_ms.map(|ms| format!("{ms:.1}")).unwrap_or_default()),
    ]
}

/// A filter whose time is fixed.
struct Sieve<'a> {
    filter: &'a AuditFilter,
    since: Option<String>,
}

impl<'a> Sieve<'a> {
    fn new(filter: &'a AuditFilter) -> Self {
        let since = filter.since.and_then(|since| wall().checked_sub(since)).map(rfc3339);
        Self { filter, since }
    }

    /// The record of a line, if it is wanted.
    fn take(&self, line: &[u8]) -> Option<Record> {
        let record: Record = Sealed::parse(line)?.record;
        let is = |wanted: &Option<String>, has: &Option<String>| wanted.is_none() || wanted == has;
        let wanted = is(&self.filter.server, &record.server)
            && is(&self.filter.tool, &record.tool)
            && is(&self.filter.outcome, &record.outcome)
            && self.since.as_ref().is_none_or(|since| record.ts >= *since);
        wanted.then_some(record)
    }
}

#[derive(Serialize)]
struct TailView {
    lines: Vec<Box<RawValue>>,
}

/// `audit tail`
async fn tail(ctx: &Ctx, place: &Place, args: &AuditTail) -> Result<Done, Failure> {
    let log = look(place)?;
    let sieve = Sieve::new(&args.filter);
    let last = last_lines(&log, &sieve, args.lines).map_err(|error| unreadable(&error))?;
    if args.follow {
        for (line, record) in &last {
            if !say(ctx, line, record)? {
                return Ok(Done::Streamed(Exit::Ok));
            }
        }
        return follow(ctx, place, &log, &sieve).await;
    }
    let raw = |line: &String| RawValue::from_string(line.clone()).ok();
    let view = TailView { lines: last.iter().filter_map(|(line, _)| raw(line)).collect() };
    let rows: Vec<Vec<Field>> = last.iter().map(|(_, record)| row(ctx, record)).collect();
    let human =
        if rows.is_empty() { "No line fits.".to_owned() } else { table(&COLUMNS, &rows, ctx.style()) };
    Answer::new(TAIL, &view, human).map(Done::from)
}

/// The last lines that are wanted, oldest first. Newer files are read first.
fn last_lines(
    log: &Snapshot,
    sieve: &Sieve<'_>,
    lines_max: usize,
) -> Result<VecDeque<(String, Record)>, AuditError> {
    let mut last = VecDeque::new();
    for (path, bytes) in log.files.iter().rev() {
        let mut of_file = VecDeque::new();
        let room = lines_max - last.len();
        each_line(path, 0, *bytes, |line, _| {
            if let Some(record) = sieve.take(line) {
                of_file.push_back((String::from_utf8_lossy(line).into_owned(), record));
                if of_file.len() > room {
                    of_file.pop_front();
                }
            }
        })?;
        of_file.append(&mut last);
        last = of_file;
        if last.len() >= lines_max {
            break;
        }
    }
    Ok(last)
}

/// One line of `tail -f`; `false` when nobody reads any more.
fn say(ctx: &Ctx, line: &str, record: &Record) -> Result<bool, Failure> {
    if ctx.global.json {
        return write_stdout(&format!("{line}\n"));
    }
    let fields = row(ctx, record);
    let words: Vec<String> = fields
        .iter()
        .filter(|field| !field.text.is_empty())
        .map(|field| ctx.style().paint(field.tone, &field.text))
        .collect();
    write_stdout(&format!("{}\n", words.join("  ")))
}

/// Goes on with what is written, until Ctrl-C.
async fn follow(ctx: &Ctx, place: &Place, log: &Snapshot, sieve: &Sieve<'_>) -> Result<Done, Failure> {
    let path = place.log();
    let mut at = log.files.last().filter(|(last, _)| *last == path).map_or(0, |(_, bytes)| *bytes);
    let stop = interrupted();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return Ok(Done::Streamed(Exit::Interrupted)),
            () = tokio::time::sleep(FOLLOW_STEP) => {}
        }
        let length = std::fs::metadata(&path).map_or(0, |file| file.len());
        if length < at {
            // The file was full and has another name now: what it still got is in there.
            let full = look(place)?.files.into_iter().rev().nth(1);
            if let Some((full, bytes)) = full
                && !pour(ctx, sieve, &full, at, bytes)?.1
            {
                return Ok(Done::Streamed(Exit::Ok));
            }
            at = 0;
        }
        if length > at {
            let (next, heard) = pour(ctx, sieve, &path, at, length)?;
            at = next;
            if !heard {
                return Ok(Done::Streamed(Exit::Ok));
            }
        }
    }
}

/// Shows the wanted lines between two places of a file; where the last whole one ends, and whether
/// somebody still reads.
fn pour(ctx: &Ctx, sieve: &Sieve<'_>, path: &Path, from: u64, to: u64) -> Result<(u64, bool), Failure> {
    let mut heard = Ok(true);
    let end = each_line(path, from, to, |line, ended| {
        if let Some(record) = sieve.take(line).filter(|_| ended && matches!(heard, Ok(true))) {
            heard = say(ctx, &String::from_utf8_lossy(line), &record);
        }
    });
    let end = end.map_err(|error| unreadable(&error))?;
    Ok((end, heard?))
}

/// `audit export`
fn export(ctx: &Ctx, place: &Place, args: &AuditExport) -> Result<Done, Failure> {
    let log = look(place)?;
    let report = log.verify(place).map_err(|error| unreadable(&error))?;
    if !report.is_whole() && !args.broken {
        let message =
            format!("nothing was written out: the audit log is broken in {} places", report.breaks());
        return Err(Failure::new("audit_broken", Exit::Unhealthy, message)
            .fix("`callboard audit verify` names them; --broken writes it out all the same"));
    }
    let sieve = Sieve::new(&args.filter);
    let mut heard = match args.format {
        AuditForm::Csv => write_stdout(&format!("{}\r\n", CSV.join(","))),
        AuditForm::Jsonl => Ok(true),
    };
    let read = log.each(|line| {
        if let Some(record) = sieve.take(line).filter(|_| matches!(heard, Ok(true))) {
            heard = write_stdout(&match args.format {
                AuditForm::Jsonl => format!("{}\n", String::from_utf8_lossy(line)),
                AuditForm::Csv => csv(ctx, &record),
            });
        }
    });
    read.map_err(|error| unreadable(&error))?;
    heard?;
    Ok(Done::Streamed(if report.is_whole() { Exit::Ok } else { Exit::Unhealthy }))
}

/// The columns of a CSV export: the fields of a line that are plain values.
const CSV: [&str; 22] = [
    "seq",
    "ts",
    "boot_id",
    "door",
    "session",
    "call_id",
    "trace_id",
    "event",
    "server",
    "kind",
    "tool",
    "pin",
    "args_hash",
    "decision",
    "decided_by",
    "answer",
    "listener",
    "reason",
    "outcome",
    "error_type",
    "duration_ms",
    "exec_count",
];

/// One row. A text that a spreadsheet would take for a formula gets an apostrophe in front.
fn csv(_ctx: &Ctx, record: &Record) -> String {
    let value = serde_json::to_value(record).unwrap_or_default();
    let cell = |name: &&str| match value.get(*name) {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => {
            let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
            let guard = if formula { "'" } else { "" };
            format!("\"{guard}{}\"", text.replace('"', "\"\""))
        }
        Some(other) => other.to_string(),
    };
    let cells: Vec<String> = CSV.iter().map(cell).collect();
    format!("{}\r\n", cells.join(","))
}
