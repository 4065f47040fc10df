//! Floor 5. The line above the prompt: how many servers are ready, start, failed; and the news about
//! single ones. Pure. Used by `repl`.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;

use crate::cli::out::{Style, Tone};
use crate::cli::status_view::is_healthy;
use crate::cli::text::count;
use crate::id::ServerId;
use crate::shaping::render::one_line;
use crate::view::{LifeState, ParkReason, ServerView};

/// Servers that are named in one piece of news.
const NEWS_MAX: usize = 3;
/// Columns of the reason in a piece of news.
const WHY_WIDTH_MAX: usize = 100;

/// How many servers are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Can be used, now or at their first use.
    pub ready: usize,
    /// On their way.
    pub starting: usize,
    /// Not usable: lost, given up, in want of credentials.
    pub failed: usize,
    /// Wait for the person's approval.
    pub pending: usize,
    /// Tools of all that are ready.
    pub tools: usize,
}

/// How they are.
fn kind(state: LifeState) -> Kind {
    match state {
        state if is_healthy(state) => Kind::Ready,
        LifeState::Connecting | LifeState::Draining => Kind::Starting,
        LifeState::Parked(ParkReason::PendingApproval) => Kind::Pending,
        LifeState::Parked(ParkReason::Disabled) | LifeState::Stopped => Kind::Off,
        _ => Kind::Failed,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ready,
    Starting,
    Failed,
    Pending,
    Off,
}

/// Counts them.
pub fn counts(views: &[ServerView]) -> Counts {
    let mut counts = Counts::default();
    for view in views {
        match kind(view.state) {
            Kind::Ready => {
                counts.ready += 1;
                counts.tools += view.counts.tools;
            }
            Kind::Starting => counts.starting += 1,
            Kind::Failed => counts.failed += 1,
            Kind::Pending => counts.pending += 1,
            Kind::Off => {}
        }
    }
    counts
}

/// The line: exactly `width` columns, so that it can be put in place of another one. `also` stands
/// behind the servers: mode, model.
pub fn bar(counts: Counts, also: &[String], style: Style, width: usize) -> String {
    let mut parts = vec![(format!("{} ready", counts.ready), Tone::Good)];
    for (number, word, tone) in [
        (counts.starting, "starting", Tone::Warn),
        (counts.failed, "failed", Tone::Bad),
        (counts.pending, "to approve", Tone::Warn),
    ] {
        if number > 0 {
            parts.push((format!("{number} {word}"), tone));
        }
    }
    if counts.ready > 0 {
        parts.push((count(counts.tools, "tool"), Tone::Dim));
    }
    parts.extend(also.iter().map(|text| (text.clone(), Tone::Dim)));
    let mut line = String::new();
    let mut used = 0;
    for (at, (text, tone)) in parts.iter().enumerate() {
        let gap = if at > 0 { " · " } else { "" };
        let room = width.saturating_sub(used + gap.width());
        let text = one_line(text, room);
        if text.is_empty() {
            break;
        }
        line.push_str(&style.paint(Tone::Dim, gap));
        line.push_str(&style.paint(*tone, &text));
        used += gap.width() + text.width();
    }
    line + &" ".repeat(width.saturating_sub(used))
}

/// What was last told about each server.
#[derive(Debug, Default)]
pub struct News {
    seen: BTreeMap<ServerId, LifeState>,
}

impl News {
    /// What changed that a person should hear of: a server that was usable and is not, one that is
    /// not tried again by itself, one that is back. Of several at once, some by name.
    pub fn of(&mut self, views: &[ServerView], clean: &dyn Fn(&str) -> String) -> Vec<String> {
        let mut news = Vec::new();
        for view in views {
            let before = self.seen.insert(view.id.clone(), view.state);
            if let Some(line) = before.and_then(|before| piece(before, view, clean)) {
                news.push(line);
            }
        }
        self.seen.retain(|id, _| views.iter().any(|view| view.id == *id));
        if news.len() > NEWS_MAX {
            let more = news.len() - NEWS_MAX;
            news.truncate(NEWS_MAX);
            news.push(format!("… and {more} more: /mcp status"));
        }
        news
    }
}

fn piece(before: LifeState, view: &ServerView, clean: &dyn Fn(&str) -> String) -> Option<String> {
    let (was, is) = (kind(before), kind(view.state));
    let why = view.why.as_deref().map(|why| one_line(&clean(why), WHY_WIDTH_MAX));
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    let name = &view.id;
    match (was, is) {
        (Kind::Ready, Kind::Failed) => Some(format!("✗ {name} is lost{why}")),
        (Kind::Starting | Kind::Failed, Kind::Failed) if is_parked(view.state) && !is_parked(before) => {
            Some(format!("✗ {name} can't be used{why} (/mcp why {name})"))
        }
        (Kind::Failed, Kind::Ready) => Some(format!("✓ {name} is back")),
        _ => None,
    }
}

fn is_parked(state: LifeState) -> bool {
    matches!(state, LifeState::Parked(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status_view::tests::view;

    const GAVE_UP: LifeState = LifeState::Parked(ParkReason::GivenUp);

    #[test]
    fn the_bar_counts_and_has_exactly_its_width() {
        let states = [
            LifeState::Ready,
            LifeState::Dormant,
            LifeState::Connecting,
            LifeState::BackingOff,
            GAVE_UP,
            LifeState::Parked(ParkReason::PendingApproval),
            LifeState::Parked(ParkReason::Disabled),
        ];
        let views: Vec<ServerView> = states.iter().map(|state| view("s", *state)).collect();
        let counts = counts(&views);
        assert_eq!((counts.ready, counts.starting, counts.failed, counts.pending), (2, 1, 2, 1));
        let also = ["readonly".to_owned(), "a-model".to_owned()];
        let line = bar(counts, &also, Style::PLAIN, 80);
        assert!(line.starts_with("2 ready · 1 starting · 2 failed · 1 to approve · "), "{line}");
        assert!(line.contains("readonly · a-model"));
        for width in 0..90 {
            assert_eq!(bar(counts, &also, Style::PLAIN, width).width(), width);
        }
    }

    #[test]
    fn news_is_what_a_person_should_hear_of() {
        let clean = |text: &str| text.to_owned();
        let mut news = News::default();
        let mut lost = view("a", LifeState::BackingOff);
        lost.why = Some("it exited".into());
        assert!(news.of(&[view("a", LifeState::Connecting)], &clean).is_empty(), "the first look is no news");
        assert!(news.of(&[view("a", LifeState::Ready)], &clean).is_empty(), "the bar says that");
        assert_eq!(news.of(std::slice::from_ref(&lost), &clean), ["✗ a is lost: it exited"]);
        assert!(news.of(&[lost], &clean).is_empty(), "once");
        assert_eq!(news.of(&[view("a", LifeState::Ready)], &clean), ["✓ a is back"]);
    }

    #[test]
    fn a_crowd_that_fails_at_once_is_told_in_few_lines() {
        let clean = |text: &str| text.to_owned();
        let mut news = News::default();
        let all = |state| (0..25).map(|n| view(&format!("s{n}"), state)).collect::<Vec<_>>();
        news.of(&all(LifeState::Connecting), &clean);
        let told = news.of(&all(GAVE_UP), &clean);
        assert_eq!(told.len(), NEWS_MAX + 1);
        assert!(told[NEWS_MAX].contains("22 more"), "{told:?}");
    }
}
