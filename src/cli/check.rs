//! Floor 5. `check S`: starts a server, reads its definitions, and says which clients
//! would reject what. Called by `cli::run`.

use serde::Serialize;

use super::Done;
use super::check_rules::{Finding, Reaction, lint, lint_list};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::items::Clean;
use super::list_args::MaybeServer;
use super::once::pick;
use super::out::{Answer, Style, Tone};
use super::pin::flow_when_seen;
use super::session::{answering, plan, ready, unread};
use super::text;
use crate::catalog::flow::Flow;
use crate::catalog::items::{ItemList, Quarantined};
use crate::id::ServerId;
use crate::runtime::Runtime;

const SCHEMA: &str = "callboard.check/1";

#[derive(Serialize)]
struct ReactionView {
    client: &'static str,
    effect: &'static str,
    evidence: &'static str,
}

impl From<&Reaction> for ReactionView {
    fn from(reaction: &Reaction) -> Self {
        Self {
            client: reaction.client,
            effect: reaction.effect.as_str(),
            evidence: reaction.evidence.as_str(),
        }
    }
}

#[derive(Serialize)]
struct FindingView<'a> {
    tool: &'a str,
    rule: &'static str,
    place: &'a str,
    message: &'static str,
    fix: &'static str,
    clients: Vec<ReactionView>,
}

#[derive(Serialize)]
struct BadView<'a> {
    tool: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct CheckView<'a> {
    server: &'a str,
    tools_checked: usize,
    findings: Vec<FindingView<'a>>,
    unusable: Vec<BadView<'a>>,
    list_warnings: &'a [String],
    toxic_flow: Option<Flow>,
}

/// `check S`
pub async fn check(ctx: &Ctx, args: MaybeServer) -> Result<Done, Failure> {
    let picked = pick(ctx, args.server.as_deref(), &args.once)?;
    let (ctx, server) = (picked.ctx.as_ref(), &picked.server);
    let body = async |runtime: &Runtime| {
        ready(ctx, runtime, server, args.timeout).await?;
        let catalog = runtime.catalog();
        let list = catalog.servers.get(server).map(|of_server| of_server.tools.clone());
        answer(ctx, server, &list.unwrap_or_default())
    };
    answering(ctx, SCHEMA, plan(ctx, std::slice::from_ref(server)), body, |failure| failure).await
}

fn answer(ctx: &Ctx, server: &ServerId, list: &ItemList) -> Result<Answer, Failure> {
    if let Some(cause) = &list.unread {
        return Err(unread(ctx, server, cause));
    }
    let mut findings = lint(list.items.iter().filter_map(|item| std::str::from_utf8(&item.raw).ok()));
    findings.extend(lint_list(list));
    let checked = list.items.len() + list.quarantined.len();
    let clean = |text: &str| ctx.clean(text);
    let human = report(checked, &findings, list, ctx.style(), &clean);
    let toxic_flow = flow_when_seen(ctx, Some((server, list))).filter(|flow| flow.has(server.as_str()));
    let toxic = toxic_flow.as_ref().map(Flow::to_string);
    let view = CheckView {
        toxic_flow,
        server: server.as_str(),
        tools_checked: checked,
        findings: findings.iter().map(finding_view).collect(),
        unusable: list
            .quarantined
            .iter()
            .map(|bad| BadView { tool: &bad.name, reason: &bad.reason })
            .collect(),
        list_warnings: &list.warnings,
    };
    let clean_bill = findings.is_empty() && list.quarantined.is_empty() && list.warnings.is_empty();
    let exit = if clean_bill { Exit::Ok } else { Exit::Unhealthy };
    Ok(Answer::new(SCHEMA, &view, human)?.warn(toxic).ending(exit))
}

fn finding_view(finding: &Finding) -> FindingView<'_> {
    FindingView {
        tool: &finding.tool,
        rule: finding.rule.id,
        place: &finding.place,
        message: finding.rule.title,
        fix: finding.rule.fix,
        clients: finding.rule.reactions.iter().map(ReactionView::from).collect(),
    }
}

fn report(checked: usize, findings: &[Finding], list: &ItemList, style: Style, clean: Clean<'_>) -> String {
    let mut parts = Vec::new();
    for finding in findings {
        let head = format!("{}: {} ({})", clean(&finding.tool), finding.rule.title, clean(&finding.place));
        let mut part = style.paint(Tone::Warn, &head);
        for reaction in finding.rule.reactions {
            part.push_str(&format!("\n  {} {}", reaction.client, reaction.effect.words()));
        }
        part.push_str(&format!("\n  {} {}", style.paint(Tone::Good, "fix:"), finding.rule.fix));
        parts.push(part);
    }
    parts.extend(list.quarantined.iter().map(|bad| unusable(bad, style, clean)));
    parts.extend(list.warnings.iter().map(|warning| style.paint(Tone::Warn, &clean(warning))));
    let count = text::count(checked, "tool");
    parts.push(if parts.is_empty() {
        style.paint(Tone::Good, &format!("{count} checked: every known client takes them"))
    } else {
        format!("{count} checked, {}", text::count(parts.len(), "finding"))
    });
    parts.join("\n\n")
}

fn unusable(bad: &Quarantined, style: Style, clean: Clean<'_>) -> String {
    style.paint(Tone::Bad, &format!("{}: kept out by Callboard: {}", clean(&bad.name), clean(&bad.reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_tool_the_clients_and_the_cure() {
        let findings = lint([r#"{"name":"t","inputSchema":{}}"#]);
        let text = report(1, &findings, &ItemList::default(), Style::PLAIN, &|t| t.to_owned());
        assert!(text.starts_with("t: inputSchema does not say \"type\": \"object\" (inputSchema)"), "{text}");
        assert!(text.contains("\n  Claude Code 2.1 shows the server without tools"), "{text}");
        assert!(text.contains("\n  fix: add"), "{text}");
        assert!(text.ends_with("1 tool checked, 1 finding"), "{text}");
    }

    #[test]
    fn a_clean_server_gets_a_clean_bill() {
        let text = report(3, &[], &ItemList::default(), Style::PLAIN, &|t| t.to_owned());
        assert_eq!(text, "3 tools checked: every known client takes them");
    }

    #[test]
    fn what_callboard_keeps_out_is_told_too() {
        let list = ItemList {
            quarantined: vec![Quarantined { name: "#3".into(), reason: "no name".into() }],
            ..ItemList::default()
        };
        let text = report(3, &[], &list, Style::PLAIN, &|t| t.to_owned());
        assert!(text.starts_with("#3: kept out by Callboard: no name"), "{text}");
    }
}
