//! What clients of one host have of it, whatever the order in which they come, change and go.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::actors::approvals::RulePlace;
use crate::catalog::definition;
use crate::catalog::items::{ListKind, ServerCatalog};
use crate::catalog::naming::NamingRule;
use crate::catalog::part::{Own, part};
use crate::config::load::{Env, LoadOptions};
use crate::config::mode::Mode;
use crate::config::rule_book::{RuleBook, RuleKey};
use crate::config::serve::ServeSettings;
use crate::config::spec::{
    Entry, EntryState, NamingStyle, Scope, ServerSpec, Sharing, Source, TransportSpec,
};
use crate::id::Generation;
use crate::runtime::RuntimePlan;

const LINGER: Duration = Duration::from_secs(60);
const NAMES: [&str; 4] = ["a", "a_b", "b", "b__c"];
const TOOLS: [&str; 3] = ["c", "b__c", "say"];

fn at(secs: u64) -> Monotonic {
    Monotonic::base() + Duration::from_secs(secs)
}

/// The entry of that name: `what` decides what runs and offers as many tools; 0 is for one client only, and
/// 1 belongs to the project.
fn entry(name: &str, what: u8) -> Entry {
    let (args, env) = (Vec::new(), Vec::new());
    let transport = TransportSpec::Stdio { command: format!("c{what}"), args, env, cwd: None };
    let sharing = if what == 0 { Sharing::Session } else { Sharing::Shared };
    let spec = ServerSpec { sharing, ..ServerSpec::new(name, transport) };
    let scope = if what == 1 { Scope::Project } else { Scope::User };
    Entry {
        id: name.into(),
        source: Source { scope, origin: "f".into() },
        project: None,
        shadows: Vec::new(),
        state: EntryState::Ready(Arc::new(spec)),
        issues: Vec::new(),
        hash: String::new(),
        transport: "stdio",
        summary: String::new(),
        label: None,
        description: None,
        required: false,
        down: None,
    }
}

/// A client with these entries, in a project of its own, that names its tools so.
fn planned(entries: &[Option<u8>], root: &str, naming: NamingStyle) -> Planned {
    let mut runtime = RuntimePlan::default();
    let all = NAMES.iter().zip(entries).filter_map(|(name, what)| Some(entry(name, (*what)?)));
    runtime.servers.entries = all.collect();
    runtime.gate.mode = Mode::Safe;
    runtime.gate.place = Some(RulePlace { home: "/h".into(), root: root.into(), servers: BTreeMap::new() });
    Planned {
        host: HostPlan::with(runtime, ServeSettings { naming, ..ServeSettings::default() }),
        search_key: None,
        common: Common::default(),
        caller: Caller::same_user(),
        frame_max: 1,
        files: Vec::new(),
    }
}

fn join() -> Join {
    Join::of(&LoadOptions::new(Env::default(), "/"))
}

fn enter(hall: &mut Hall, planned: &Planned, now: Monotonic) -> Member {
    hall.enter(planned, join(), Vec::new(), now).unwrap()
}

/// What an instance offers: as many tools as its entry says.
fn offer(id: &ServerId, entry: &Entry) -> Arc<ServerCatalog> {
    let mut catalog = ServerCatalog::empty(id.clone(), Generation(1));
    let EntryState::Ready(spec) = &entry.state else { return Arc::new(catalog) };
    let TransportSpec::Stdio { command, .. } = &spec.transport else { return Arc::new(catalog) };
    let count: usize = command[1..].parse().unwrap();
    catalog.tools.items.extend(TOOLS.iter().take(count).map(|tool| {
        let raw = Bytes::from(format!(
            r#"{{"name":"{tool}","title":"{command}","inputSchema":{{"type":"object"}}}}"#
        ));
        Arc::new(definition::read(ListKind::Tools, raw).unwrap())
    }));
    Arc::new(catalog)
}

/// The tools that a client sees: names, servers, definitions, in order.
fn seen(hall: &Hall, member: Member) -> Vec<(String, String, Bytes)> {
    let plan = hall.plan().unwrap();
    let entries = &plan.runtime.servers.entries;
    let all = entries.iter().map(|entry| (entry.id.clone(), offer(&entry.id, entry))).collect();
    let of = hall.part(member).unwrap();
    let Reach::These(servers) = &of.reach else { panic!("{of:?}") };
    let rule =
        NamingRule { style: of.settings.naming, len_max: of.settings.name_len_max, reserved: &of.reserved };
    let part = part(&all, &Own { servers, rule, remembered: &BTreeMap::new() });
    let tools = part.tools.iter();
    tools.map(|t| (t.name.clone(), t.route.server.to_string(), t.route.item.raw.clone())).collect()
}

#[test]
fn clients_of_ten_projects_have_each_server_of_the_user_once_and_each_project_its_own() {
    let mut hall = Hall::new(LINGER);
    for n in 0..10 {
        let one = planned(&[Some(2), Some(3), Some(1), None], &format!("/p{n}"), NamingStyle::ServerTool);
        enter(&mut hall, &one, at(0));
    }
    let entries = hall.plan().unwrap().runtime.servers.entries;
    let count = |name: &str| entries.iter().filter(|entry| entry.id.as_str() == name).count();
    assert_eq!(NAMES.map(count), [1, 1, 10, 0]);
    let roots: BTreeSet<_> = entries.iter().filter_map(|entry| entry.project.clone()).collect();
    assert_eq!(roots.len(), 10, "rules and pins are bound to each project");
}

#[test]
fn the_rules_of_one_project_count_for_no_other_and_those_of_the_user_for_all() {
    let mut hall = Hall::new(LINGER);
    let naming = NamingStyle::ServerTool;
    let one = enter(&mut hall, &planned(&[Some(2), None, Some(1), None], "/p1", naming), at(0));
    let two = enter(&mut hall, &planned(&[Some(2), None, Some(1), None], "/p2", naming), at(0));
    // For the third, `b` is a server of the user.
    let three = enter(&mut hall, &planned(&[None, None, Some(2), None], "/p1", naming), at(0));
    let mut book = RuleBook::default();
    let tools = BTreeSet::from(["t".to_owned()]);
    book.set(&RuleKey::of(Scope::User, "/".as_ref(), &"a".into()), &tools);
    book.set(&RuleKey::of(Scope::Project, "/p1".as_ref(), &"b".into()), &tools);
    let plan = hall.plan().unwrap().runtime;
    let rules = plan.gate.place.unwrap().in_force(&book);
    let allows = |member: Member, name: &str| {
        let id = &hall.union.leads(member).unwrap()[&ServerId::new(name)];
        let entry = plan.servers.entries.iter().find(|entry| entry.id == *id).unwrap();
        rules.rule_for(entry.source.scope, id, "t")
    };
    assert_eq!((allows(one, "a"), allows(two, "a")), (Some("a/t".into()), Some("a/t".into())));
    assert_eq!((allows(one, "b"), allows(two, "b")), (Some("b/t".into()), None));
    assert_eq!(allows(three, "b"), None, "another entry of that name");
}

#[test]
fn what_a_client_has_of_its_own_is_its_own_and_what_differs_for_the_whole_host_is_refused() {
    let mut hall = Hall::new(LINGER);
    let one = enter(&mut hall, &planned(&[Some(2)], "/p", NamingStyle::ServerTool), at(0));
    let mut other = planned(&[Some(2)], "/p", NamingStyle::Bare);
    other.host.runtime.gate.mode = Mode::Auto;
    other.host.serve.calls_max = 7;
    let two = enter(&mut hall, &other, at(0));
    assert_eq!(hall.plan().unwrap().runtime.servers.entries.len(), 1);
    let (one, two) = (hall.part(one).unwrap(), hall.part(two).unwrap());
    assert_eq!((one.mode, two.mode), (Some(Mode::Safe), Some(Mode::Auto)));
    assert_eq!((two.settings.calls_max, two.settings.naming), (7, NamingStyle::Bare));
    assert_eq!(hall.plan().unwrap().runtime.gate.mode, Mode::Auto, "each brings what makes it stricter");
    let settings = crate::config::host::HostSettings { in_flight_max: 3, ..Default::default() };
    other.common = Common::of(&settings);
    let refused = hall.enter(&other, join(), Vec::new(), at(0)).unwrap_err();
    assert!(matches!(*refused, Reply::Refused { code, .. } if code == "other_settings"));
}

#[test]
fn what_is_held_by_hand_stays_so_for_all_and_is_forgotten_with_the_server() {
    let mut hall = Hall::new(LINGER);
    let one = planned(&[Some(2), Some(2)], "/p", NamingStyle::ServerTool);
    let first = enter(&mut hall, &one, at(0));
    let runs = |hall: &Hall| -> Vec<bool> {
        let entries = hall.plan().unwrap().runtime.servers.entries;
        entries.iter().map(|entry| matches!(entry.state, EntryState::Ready(_))).collect()
    };
    hall.hold(Hold::Stop, &["a".into()]);
    let second = enter(&mut hall, &one, at(1));
    assert_eq!(runs(&hall), [false, true]);
    hall.hold(Hold::Off, &[]);
    assert_eq!(runs(&hall), [false, false]);
    hall.hold(Hold::On, &[]);
    assert_eq!(runs(&hall), [false, true]);
    hall.leave(first, at(2));
    hall.leave(second, at(3));
    assert!(hall.is_empty() && !hall.forget_due(at(62)) && hall.forget_due(at(63)));
    enter(&mut hall, &one, at(64));
    assert_eq!(runs(&hall), [true, true]);
}

#[test]
fn a_file_that_cant_be_read_changes_nothing() {
    let mut hall = Hall::new(LINGER);
    let member = enter(&mut hall, &planned(&[Some(2)], "/p", NamingStyle::ServerTool), at(0));
    let mut broken = planned(&[None], "/p", NamingStyle::Bare);
    let document = crate::config::document::parse(
        "{",
        &Source { scope: Scope::User, origin: "mcp.json".into() },
        "/".as_ref(),
        crate::config::document::Form::File,
    );
    broken.host.runtime.servers.issues = document.issues;
    let before = seen(&hall, member);
    hall.change(vec![(member, broken, Vec::new())], at(1));
    assert_eq!(seen(&hall, member), before);
}

fn entries() -> impl Strategy<Value = Vec<Option<u8>>> {
    proptest::collection::vec(proptest::option::of(0u8..4), NAMES.len())
}

fn styles() -> impl Strategy<Value = NamingStyle> {
    proptest::sample::select(vec![
        NamingStyle::McpDouble,
        NamingStyle::McpSingle,
        NamingStyle::ServerTool,
        NamingStyle::Bare,
    ])
}

proptest! {
    /// Clients come, change their files (some at once) and go in any order: each sees exactly what it would
    /// see alone, and the servers are those that somebody wants or wanted a moment ago.
    #[test]
    fn any_order_of_joins_leaves_and_edits_gives_each_client_the_view_that_it_has_alone(
        steps in proptest::collection::vec((0usize..4, proptest::option::of(entries()), styles(), any::<bool>()), 0..40),
    ) {
        let mut hall = Hall::new(LINGER);
        let mut here: BTreeMap<usize, (Member, Vec<Option<u8>>, NamingStyle)> = BTreeMap::new();
        for (step, (who, entries, style, at_once)) in steps.into_iter().enumerate() {
            let now = at(step as u64 * 25);
            let root = |who: usize| format!("/p{}", who % 3);
            match (entries, here.get(&who).cloned()) {
                (Some(entries), None) => {
                    let member = enter(&mut hall, &planned(&entries, &root(who), style), now);
                    here.insert(who, (member, entries, style));
                }
                (Some(entries), Some(_)) => {
                    let all: Vec<usize> = if at_once { here.keys().copied().collect() } else { vec![who] };
                    let mut changes = Vec::new();
                    for one in all {
                        let Some((member, has, style)) = here.get_mut(&one) else { continue };
                        *has = entries.clone();
                        changes.push((*member, planned(&entries, &root(one), *style), Vec::new()));
                    }
                    hall.change(changes, now);
                }
                (None, Some((member, ..))) => {
                    hall.leave(member, now);
                    here.remove(&who);
                }
                (None, None) => {}
            }
            hall.forget_due(now);
            for (who, (member, entries, style)) in &here {
                let mut alone = Hall::new(LINGER);
                let only = enter(&mut alone, &planned(entries, &root(*who), *style), now);
                prop_assert_eq!(seen(&hall, *member), seen(&alone, only));
            }
        }
    }
}
