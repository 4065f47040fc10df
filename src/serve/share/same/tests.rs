//! What makes two entries the same server, and what does not.

use super::*;
use crate::config::spec::{Down, Source, TransportSpec};

fn entry(scope: Scope, command: &str, sharing: Sharing) -> Entry {
    let (args, env) = (Vec::new(), Vec::new());
    let transport = TransportSpec::Stdio { command: command.into(), args, env, cwd: None };
    let spec = ServerSpec { sharing, ..ServerSpec::new("s", transport) };
    Entry {
        id: "s".into(),
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

fn around(pairs: &[(&str, &str)]) -> Surroundings {
    let host_env = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let (roots, poll) = (Vec::new(), None);
    Surroundings { host_env: Arc::new(host_env), env_passthrough: vec!["X".to_owned()], roots, poll }
}

fn same(entry: &Entry, root: &str, pairs: &[(&str, &str)]) -> Same {
    Same::of(entry, Path::new(root), &around(pairs))
}

#[test]
fn an_entry_comes_to_the_same_only_with_its_environment_its_scope_and_all_that_is_written() {
    let plain = entry(Scope::User, "c", Sharing::Shared);
    let home: &[(&str, &str)] = &[("HOME", "/h")];
    let base = same(&plain, "/p", home);
    assert!(base == same(&plain, "/p", &[("HOME", "/h"), ("TERM", "dumb"), ("UNSEEN", "1")]));
    assert!(base != same(&plain, "/p", &[("HOME", "/other")]));
    assert!(base != same(&plain, "/p", &[("HOME", "/h"), ("X", "1")]), "what is passed through counts");
    assert!(base != same(&entry(Scope::Project, "c", Sharing::Shared), "/p", home));
    assert!(base != same(&entry(Scope::User, "d", Sharing::Shared), "/p", home));
    let told = Surroundings { roots: vec!["/r".into()], ..around(home) };
    assert!(base != Same::of(&plain, Path::new("/p"), &told), "where it is told to work counts");
    assert!(!base.is_for_one() && same(&entry(Scope::User, "c", Sharing::Session), "/p", &[]).is_for_one());
}

#[test]
fn the_project_counts_for_its_own_entries_and_for_no_others() {
    let home: &[(&str, &str)] = &[("HOME", "/h")];
    for scope in [Scope::User, Scope::Managed, Scope::Flag, Scope::EnvFile, Scope::EnvInline] {
        let entry = entry(scope, "c", Sharing::Shared);
        assert!(same(&entry, "/a", home) == same(&entry, "/b", home), "{scope:?}");
    }
    let own = entry(Scope::Project, "c", Sharing::Shared);
    assert!(same(&own, "/a", home) != same(&own, "/b", home), "its rules and pins are others");
}

#[test]
fn a_server_runs_under_its_id_with_what_its_own_client_has() {
    let mut plan = RuntimePlan::default();
    plan.servers.entries.push(entry(Scope::Project, "c", Sharing::Shared));
    plan.servers.credentials.insert("s".into(), vec![SecretText::new("k")]);
    plan.gate.place = Some(crate::actors::approvals::RulePlace {
        home: "/h".into(),
        root: "/p".into(),
        servers: BTreeMap::new(),
    });
    let id = ServerId::new("s").instance(3);
    let served = Served::all(&plan, None).remove(0);
    let wanted = served.wanted();
    assert!(served.is(&"s".into(), &wanted.key) && wanted.name == ServerId::new("s"));
    let served = served.under(&id);
    assert!(served.is(&"s".into(), &wanted.key), "it is still the same");
    let mut all = without_servers(&plan);
    assert!(all.servers.entries.is_empty() && all.servers.credentials.is_empty());
    served.join(&mut all, None);
    let entry = &all.servers.entries[0];
    assert!(entry.id == id && entry.project.as_deref() == Some(Path::new("/p")));
    assert!(matches!(&entry.state, EntryState::Ready(spec) if spec.id == id));
    assert_eq!(all.gate.place.unwrap().servers[&id], (Scope::Project, "/p".into()));
    assert_eq!(all.servers.credentials[&id].len(), 1);
    let mut all = without_servers(&plan);
    let down = Down { why: "by hand".into(), fix: "start it".into() };
    served.join(&mut all, Some(down.clone()));
    let entry = &all.servers.entries[0];
    assert!(matches!(entry.state, EntryState::Disabled) && entry.down == Some(down));
}
