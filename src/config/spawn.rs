//! Floor 1. Whether a server may be started as a process on this machine: `spawn.enabled`, and the list of
//! commands (`spawn.allow`) that safe mode asks for. Pure; asked by `config::load` for every entry
//! that could run.

use std::path::{Component, Path};

use crate::config::host::{HostSettings, path_glob};
use crate::config::mode::{Mode, SpawnCheck};
use crate::config::spec::{ServerSpec, TransportSpec, Trust};

/// Why it may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnRefusal {
    /// The rest of a sentence that begins with the server.
    pub why: String,
    /// What would change it.
    pub fix: String,
}

/// Decides about one server. `program` looks up the absolute path of its command, `None` when it is
/// not found; it is called only where the answer depends on it.
///
/// # Errors
/// Why it may not be started.
pub fn check(
    settings: &HostSettings,
    spec: &ServerSpec,
    program: impl FnOnce() -> Option<std::path::PathBuf>,
) -> Result<(), SpawnRefusal> {
    let TransportSpec::Stdio { command, .. } = &spec.transport else { return Ok(()) };
    if !settings.spawn_enabled {
        return Err(SpawnRefusal {
            why: "is a process, and none is started (spawn.enabled = false)".to_owned(),
            fix: "set spawn.enabled = true, or reach the server by its url".to_owned(),
        });
    }
    let setting = match (settings.spawn_check, settings.mode) {
        (SpawnCheck::Always, _) => "spawn.check = \"always\"",
        (SpawnCheck::Safe, Mode::Safe) => "mode \"safe\"",
        (SpawnCheck::Safe, Mode::Plan | Mode::ReadOnly | Mode::Auto) => return Ok(()),
    };
    if spec.trust == Trust::Trusted || spec.allow_host_process {
        return Ok(());
    }
    let program = program();
    if program.as_deref().is_some_and(|program| is_listed(&settings.spawn_allow, program)) {
        return Ok(());
    }
    let shown = program.map_or_else(|| command.clone(), |program| program.display().to_string());
    Err(SpawnRefusal {
        why: format!("runs {shown}, which is not on spawn.allow ({setting})"),
        fix: format!(
            "add {shown:?} to spawn.allow, or set trust = \"trusted\" or allowHostProcess = true in the entry"
        ),
    })
}

/// Whether a pattern fits a path. A path with a way back fits none: it would lead elsewhere than it
/// looks.
fn is_listed(patterns: &[String], program: &Path) -> bool {
    let plain = program.is_absolute() && !program.components().any(|part| part == Component::ParentDir);
    plain && patterns.iter().filter_map(|pattern| path_glob(pattern)).any(|glob| glob.is_match(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio() -> ServerSpec {
        let transport = TransportSpec::Stdio { command: "tool".into(), args: vec![], env: vec![], cwd: None };
        ServerSpec::new("s", transport)
    }

    fn may(settings: &HostSettings, spec: &ServerSpec, program: &str) -> bool {
        check(settings, spec, || Some(program.into())).is_ok()
    }

    fn safe(allow: &[&str]) -> HostSettings {
        let spawn_allow = allow.iter().map(|p| (*p).to_owned()).collect();
        HostSettings { mode: Mode::Safe, spawn_allow, ..HostSettings::default() }
    }

    #[test]
    fn a_command_must_be_on_the_list_in_safe_mode_and_wherever_it_is_asked_for() {
        for mode in Mode::ALL {
            for spawn_check in [SpawnCheck::Safe, SpawnCheck::Always] {
                let settings = HostSettings { spawn_check, mode, ..safe(&["/usr/bin/*"]) };
                let asked = mode == Mode::Safe || spawn_check == SpawnCheck::Always;
                assert!(may(&settings, &stdio(), "/usr/bin/tool"), "{mode:?} {spawn_check:?}");
                assert_eq!(may(&settings, &stdio(), "/opt/tool"), !asked, "{mode:?} {spawn_check:?}");
                for (trust, host, want) in [
                    (Trust::Trusted, false, true),
                    (Trust::Untrusted, true, true),
                    (Trust::ReadOnly, false, !asked),
                ] {
                    let spec = ServerSpec { trust, allow_host_process: host, ..stdio() };
                    assert_eq!(may(&settings, &spec, "/opt/tool"), want, "{mode:?} {trust:?}");
                }
            }
        }
    }

    #[test]
    fn no_pattern_is_led_astray() {
        let fits = |pattern: &str, path: &str| may(&safe(&[pattern]), &stdio(), path);
        assert!(fits("/usr/bin/npx", "/usr/bin/npx") && fits("/opt/**", "/opt/a/b"));
        for (pattern, path) in [
            ("/usr/bin/*", "/usr/bin/sub/tool"),
            ("/usr/bin/*", "/usr/bin/../../tmp/tool"),
            ("/usr/**", "/usr/../tmp/tool"),
            ("/usr/bin/npx", "/usr/bin/npx2"),
            ("/usr/bin/npx", "/USR/bin/npx"),
            ("/usr/bin/npx", "/x/usr/bin/npx"),
            ("**", "tool"),
        ] {
            assert!(!fits(pattern, path), "{pattern} {path}");
        }
        assert!(!may(&safe(&[]), &stdio(), "/usr/bin/npx"), "by default nothing is on it");
        assert!(check(&safe(&["/**"]), &stdio(), || None).is_err(), "a command that is not found");
    }

    #[test]
    fn no_process_at_all_means_none_and_leaves_addresses_alone() {
        let settings = HostSettings { spawn_enabled: false, ..safe(&["/**"]) };
        let trusted = ServerSpec { trust: Trust::Trusted, allow_host_process: true, ..stdio() };
        let refused = check(&settings, &trusted, || panic!("not asked")).unwrap_err();
        assert!(refused.fix.contains("spawn.enabled"));
        let url = crate::config::spec::SecretText::new("https://x");
        let http = ServerSpec::new("s", TransportSpec::Http { url, headers: vec![] });
        assert_eq!(check(&settings, &http, || panic!("not asked")), Ok(()));
    }
}
