//! Events of a history in words: one line each, for people and for the `text` of JSON.

use std::fmt;
use std::time::Duration;

use super::history::{Cause, StartWhy, What};
use super::{ItemCounts, ParkReason};
use crate::call::{BreakerClass, Delivery};

impl fmt::Display for StartWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "it is wanted",
            Self::Learn => "to learn what it offers",
            Self::FirstUse => "the first use",
            Self::IdleWake => "a call wakes it",
            Self::BackoffOver => "the wait is over",
            Self::Asked => "somebody asked",
            Self::Files => "a watched file changed",
            Self::Reload => "its entry changed",
            Self::Demand => "given up, but a call wants it",
            Self::Probe => "the breaker's probe",
            Self::ActorRestart => "after a bug of Callboard",
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(why) => write!(f, "start: {why}"),
            Self::Spawned(pid) => write!(f, "process {pid} runs"),
            Self::Connected { revision, took } => {
                write!(f, "handshake done after {} ms, revision {revision}", took.as_millis())
            }
            Self::Late(limit) => {
                write!(f, "late: no handshake within {}; it may still come", words(*limit))
            }
            Self::Listed(counts) => write!(f, "lists read: {}", offers(counts)),
            Self::ListFailed { list, text } => write!(f, "{list} failed: {}", text.as_str()),
            Self::StartFailed { text, .. } => write!(f, "start failed: {}", text.as_str()),
            Self::Lost { text, calls, .. } => {
                write!(f, "connection lost: {}", text.as_str())?;
                match calls {
                    0 => write!(f, "; no call was running"),
                    1 => write!(f, "; 1 call was running, its outcome is unknown"),
                    n => write!(f, "; {n} calls were running, their outcome is unknown"),
                }
            }
            Self::Stderr(lines) => {
                let lines: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
                write!(f, "stderr: {}", lines.join(" | "))
            }
            Self::BackingOff(Duration::ZERO) => f.write_str("the next start is at once"),
            Self::BackingOff(wait) => write!(f, "the next start is in {}", words(*wait)),
            Self::Parked { reason, text } => parked(f, *reason, text.as_ref().map(|text| text.as_str())),
            Self::BreakerOpened { failures, open_for, last } => {
                write!(f, "breaker opened for {} after {failures} failures in a row", words(*open_for))?;
                last.as_ref().map_or(Ok(()), |last| write!(f, "; the last: {}", last.as_str()))
            }
            Self::BreakerProbing => f.write_str("breaker half-open: one probe decides"),
            Self::BreakerClosed => f.write_str("breaker closed"),
            Self::CallFailed { item, code, delivery, class } => {
                write!(f, "call of {} failed: {code}, {}, {}", item.as_str(), ran(*delivery), weighs(*class))
            }
            Self::Checked { lives: true, .. } => {
                f.write_str("a call got no answer, but the server shows life: no failure")
            }
            Self::Checked { lives: false, calls } => {
                write!(f, "no sign of life either: unanswered calls ({calls}) count as failures")
            }
            Self::Answered => f.write_str("calls answered"),
            Self::Refused => f.write_str("calls refused here, never sent"),
            Self::Paused(wait) => write!(f, "it asks to be left alone for {}", words(*wait)),
            Self::IdleStopped(limit) => write!(f, "stopped: not called for {}", words(*limit)),
            Self::RestartAsked => f.write_str("restart asked for while it ran"),
            Self::StopAsked => f.write_str("stop asked for"),
            Self::Stopped => f.write_str("stopped"),
            Self::EntryChanged => f.write_str("its entry changed"),
            Self::ActorFailed(text) => write!(f, "its actor failed, a bug of Callboard: {}", text.as_str()),
        }
    }
}

fn parked(f: &mut fmt::Formatter<'_>, reason: ParkReason, text: Option<&str>) -> fmt::Result {
    let word = reason.as_str().replace('_', " ");
    match text {
        Some(text) => write!(f, "parked ({word}): {text}"),
        None => write!(f, "parked ({word}): not tried again by itself"),
    }
}

/// A time as a person would say it.
fn words(d: Duration) -> String {
    match (d.as_secs(), d.subsec_millis()) {
        (0, ms) => format!("{ms} ms"),
        (s @ 1..60, 0) => format!("{s} s"),
        (1..60, _) => format!("{:.1} s", d.as_secs_f64()),
        (s, _) => humantime::format_duration(Duration::from_secs(s)).to_string(),
    }
}

fn offers(counts: &ItemCounts) -> String {
    let named = |n: usize, word: &str| match n {
        1 => format!("1 {word}"),
        n => format!("{n} {word}s"),
    };
    let mut parts = vec![named(counts.tools, "tool")];
    for (n, word) in [
        (counts.quarantined, "bad tool"),
        (counts.filtered, "filtered tool"),
        (counts.resources, "resource"),
        (counts.templates, "resource template"),
        (counts.prompts, "prompt"),
    ] {
        if n > 0 {
            parts.push(named(n, word));
        }
    }
    parts.join(", ")
}

/// What is known of a call's execution, in words.
fn ran(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::NotSent => "not sent",
        Delivery::Unknown => "outcome unknown",
        Delivery::Executed => "executed",
    }
}

/// How an end counts for the breaker, in words.
fn weighs(class: BreakerClass) -> &'static str {
    match class {
        BreakerClass::Trip => "counts as a failure",
        BreakerClass::Heal => "a sign of life",
        BreakerClass::Neutral => "says nothing about the server",
        BreakerClass::Exhausted => "it asks for time",
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
