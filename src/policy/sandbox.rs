//! Floor 1. What a confined stdio server may touch: its plan, what every program needs of a
//! system, and how much of it a kernel can keep. Pure; `transport::guard` looks at the disk and
//! has the kernel keep it. Called where a server is launched, and by whoever shows its level.

use std::path::{Path, PathBuf};

use crate::config::spec::{Sandbox, ServerSpec, TransportSpec};

/// What every program may read and run. Nothing below a home, no configuration of services, and
/// of `/proc` only what tells nothing about other processes.
pub const SYSTEM: [&str; 49] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/resolv.conf",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.alias",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/alternatives",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];

/// Devices that every program may read and write.
pub const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Folders beside the `bin` of a program that are part of its installation.
pub const INSTALLED: [&str; 5] = ["bin", "lib", "lib64", "libexec", "pyvenv.cfg"];

/// What one server may touch beyond [`SYSTEM`], as its entry says; nothing was looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// As in the configuration: `fs`, `fs+net` or `custom`.
    pub asked: &'static str,
    /// Its working folder is readable and writable, and `HOME` is a private folder.
    pub working: bool,
    /// Further readable paths, absolute.
    pub read: Vec<PathBuf>,
    /// Further paths that are readable and writable, absolute.
    pub write: Vec<PathBuf>,
    /// Whether the network is open.
    pub net: bool,
    /// The user's home, and Callboard's own folder: a working folder that holds one of them
    /// would give everything away.
    pub homes: Vec<PathBuf>,
    /// Callboard's own folder and those like it: never granted, however it is spelled.
    pub own: Vec<PathBuf>,
    /// Variables that the entry itself sets; they stay as they are.
    pub sets: Vec<String>,
}

/// The confinement that an entry asks for; `None` for none. `home` is the user's, `own` is
/// Callboard's folder.
pub fn confinement(spec: &ServerSpec, home: Option<&Path>, own: Option<&Path>) -> Option<Confinement> {
    let sandbox = &spec.sandbox;
    let asked = word(sandbox)?;
    let sets = match &spec.transport {
        TransportSpec::Stdio { env, .. } => env.iter().map(|(name, _)| name.clone()).collect(),
        TransportSpec::Http { .. } | TransportSpec::LegacySse { .. } => return None,
    };
    let paths = |list: &[String]| list.iter().map(PathBuf::from).collect();
    let (read, write, net) = match sandbox {
        Sandbox::Off => return None,
        Sandbox::Fs => (Vec::new(), Vec::new(), true),
        Sandbox::FsNet => (Vec::new(), Vec::new(), false),
        Sandbox::Custom { read, write, net } => (paths(read), paths(write), *net),
    };
    let own: Vec<PathBuf> = own.into_iter().map(Path::to_path_buf).collect();
    let homes = home.into_iter().map(Path::to_path_buf).chain(own.clone()).collect();
    let working = !matches!(sandbox, Sandbox::Custom { .. });
    Some(Confinement { asked, working, read, write, net, homes, own, sets })
}

/// The word of the configuration; `None` for `off`.
fn word(sandbox: &Sandbox) -> Option<&'static str> {
    match sandbox {
        Sandbox::Off => None,
        Sandbox::Fs => Some("fs"),
        Sandbox::FsNet => Some("fs+net"),
        Sandbox::Custom { .. } => Some("custom"),
    }
}

/// What the kernel of this machine can keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Powers {
    /// Files, their sizes included: Landlock of version 3 or later.
    pub files: bool,
    /// TCP: Landlock of version 4 or later.
    pub tcp: bool,
    /// Signals and abstract sockets: Landlock of version 6 or later.
    pub scope: bool,
    /// Unix sockets by path: Landlock of version 9 or later.
    pub unix: bool,
    /// Other sockets: seccomp filters.
    pub sockets: bool,
}

/// What this kernel lacks to keep a plan; `None` when it lacks nothing.
pub fn lacking(plan: &Confinement, powers: Powers) -> Option<String> {
    let lack = if !powers.files {
        "Landlock of version 3 (Linux 6.2, with \"landlock\" among its security modules)"
    } else if !plan.net && !powers.tcp {
        "Landlock of version 4 (Linux 6.7), which keeps a program from TCP"
    } else if !plan.net && !powers.sockets {
        "seccomp filters, which keep a program from UDP"
    } else {
        return None;
    };
    Some(format!("this system can't keep \"{}\": it has no {lack}; the server is not started", plan.asked))
}

/// The level that a server really gets, in words, or why it can't have what it asks for. `None`
/// where it asks for none.
pub fn level(spec: &ServerSpec, powers: Powers) -> Option<Result<String, String>> {
    let plan = confinement(spec, None, None)?;
    if let Some(lack) = lacking(&plan, powers) {
        return Some(Err(lack));
    }
    let list = |word: &str, paths: &[PathBuf]| {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let paths = if paths.is_empty() { "nothing more".to_owned() } else { paths.join(", ") };
        format!("{word} {paths}")
    };
    let files = if plan.working {
        "files: working and private folder".to_owned()
    } else {
        format!("{}, {}", list("reads", &plan.read), list("writes", &plan.write))
    };
    let net = if plan.net { "network open" } else { "no network" };
    let scope = if powers.scope { "signals kept in" } else { "signals not kept in" };
    let unix = if plan.net || powers.unix { "" } else { "; unix sockets by path open" };
    Some(Ok(format!("{} ({files}; {net}; {scope}{unix})", plan.asked)))
}

/// Whether `folder` is `inner` or one of the folders above it.
pub fn holds(folder: &Path, inner: &Path) -> bool {
    inner.starts_with(folder)
}

/// Folders and files of the installation that a program belongs to: beside a folder `bin`, and
/// the outermost `node_modules` around it.
pub fn installation(program: &Path) -> Vec<PathBuf> {
    let mut found = vec![program.to_path_buf()];
    let folder = program.parent();
    if let Some(prefix) = folder.filter(|folder| folder.ends_with("bin")).and_then(Path::parent) {
        found.extend(INSTALLED.iter().map(|name| prefix.join(name)));
    }
    let around: Vec<&Path> = program.ancestors().filter(|path| path.ends_with("node_modules")).collect();
    found.extend(around.last().map(|path| path.to_path_buf()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::SecretText;

    const ALL: Powers = Powers { files: true, tcp: true, scope: true, unix: true, sockets: true };

    fn spec(sandbox: &Sandbox) -> ServerSpec {
        let env = vec![("HOME".to_owned(), SecretText::new("/elsewhere"))];
        let transport = TransportSpec::Stdio { command: "x".into(), args: Vec::new(), env, cwd: None };
        ServerSpec { sandbox: sandbox.clone(), ..ServerSpec::new("s", transport) }
    }

    fn custom(net: bool) -> Sandbox {
        Sandbox::Custom { read: vec!["/a".into()], write: vec!["/b".into(), "/c".into()], net }
    }

    #[test]
    fn a_level_that_the_kernel_can_not_keep_is_refused_and_never_weakened() {
        let every = [Sandbox::Fs, Sandbox::FsNet, custom(true), custom(false)];
        let lacking = [
            (Powers { files: false, ..ALL }, [true, true, true, true]),
            (Powers { tcp: false, ..ALL }, [false, true, false, true]),
            (Powers { sockets: false, ..ALL }, [false, true, false, true]),
            (Powers { scope: false, unix: false, ..ALL }, [false; 4]),
            (Powers::default(), [true; 4]),
        ];
        for (powers, refused) in lacking {
            for (sandbox, refused) in every.iter().zip(refused) {
                let level = level(&spec(sandbox), powers).unwrap();
                assert_eq!(level.is_err(), refused, "{sandbox:?} {powers:?}: {level:?}");
            }
        }
        assert_eq!(level(&spec(&Sandbox::Off), Powers::default()), None);
    }

    #[test]
    fn a_level_says_what_it_keeps_and_what_it_does_not() {
        let told = |sandbox: &Sandbox, powers| level(&spec(sandbox), powers).unwrap().unwrap();
        assert_eq!(
            told(&Sandbox::Fs, ALL),
            "fs (files: working and private folder; network open; signals kept in)"
        );
        let weaker = Powers { scope: false, unix: false, ..ALL };
        assert_eq!(
            told(&custom(false), weaker),
            "custom (reads /a, writes /b, /c; no network; signals not kept in; unix sockets by path open)"
        );
        let refused = level(&spec(&Sandbox::FsNet), Powers { tcp: false, ..ALL }).unwrap().unwrap_err();
        assert!(refused.contains("\"fs+net\"") && refused.contains("Linux 6.7"), "{refused}");
    }

    #[test]
    fn an_entry_becomes_a_plan_with_its_homes() {
        let (home, own) = (Path::new("/home/user"), Path::new("/home/user/.callboard"));
        let plan = |sandbox: &Sandbox| confinement(&spec(sandbox), Some(home), Some(own));
        assert_eq!(plan(&Sandbox::Off), None);
        let fs = plan(&Sandbox::Fs).unwrap();
        assert!(fs.working && fs.net && fs.read.is_empty() && fs.write.is_empty());
        assert_eq!((fs.homes, fs.sets), (vec![home.into(), own.into()], vec!["HOME".to_owned()]));
        assert!(!plan(&Sandbox::FsNet).unwrap().net);
        let own_words = plan(&custom(true)).unwrap();
        assert!(!own_words.working && own_words.net);
        assert_eq!(own_words.write, [Path::new("/b"), Path::new("/c")]);
    }

    #[test]
    fn an_installation_is_what_lies_beside_bin_and_never_a_home() {
        let of = |program: &str| -> Vec<String> {
            let found = installation(Path::new(program));
            found.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(
            of("/h/venv/bin/python"),
            [
                "/h/venv/bin/python",
                "/h/venv/bin",
                "/h/venv/lib",
                "/h/venv/lib64",
                "/h/venv/libexec",
                "/h/venv/pyvenv.cfg"
            ]
        );
        assert_eq!(of("/h/server"), ["/h/server"]);
        assert_eq!(of("/h/p/node_modules/a/node_modules/b/x.js")[1..], ["/h/p/node_modules"]);
        assert!(holds(Path::new("/h"), Path::new("/h/.ssh")) && !holds(Path::new("/h"), Path::new("/home")));
    }

    #[test]
    fn what_every_program_may_read_holds_no_home_and_no_secret() {
        for secret in [
            "/etc/shadow",
            "/etc/callboard/mcp.json",
            "/etc/ssh/ssh_host_ed25519_key",
            "/etc/ssl/private/key.pem",
            "/home/user/.ssh/id_ed25519",
            "/var/lib/x",
            "/proc/1/environ",
            "/proc/kcore",
            "/run/secrets/x",
            "/dev/sda",
            "/tmp/x",
        ] {
            let shown = SYSTEM.iter().chain(&DEVICES).find(|path| holds(Path::new(path), Path::new(secret)));
            assert_eq!(shown, None, "{secret}");
        }
    }
}
