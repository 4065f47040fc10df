//! `--escape FILE`: what a confined server tries to get out, each try by itself, and what came of
//! it. Owns no expectation; must never touch anything that FILE does not name. Called by `main`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, getppid, kill_process};
use serde::Deserialize;

/// Where things are that must stay out of reach.
#[derive(Deserialize)]
struct Target {
    /// A folder with one file for each try, named by it.
    outside: PathBuf,
    /// A host's process.
    host: i32,
    /// A listening port.
    tcp: SocketAddr,
    /// A bound port.
    udp: SocketAddr,
    /// Name of a listening abstract socket.
    name: String,
    /// A file beside the report, in the working folder.
    report: PathBuf,
}

/// A try: the file that is its own, and what came of it.
type Try = fn(&Target, &Path) -> io::Result<()>;

/// Each breaks out when it succeeds.
const TRIES: [(&str, Try); 28] = [
    ("read", |_, file| fs::read(file).map(drop)),
    ("list", |target, _| fs::read_dir(&target.outside).map(drop)),
    ("create", |target, _| File::create(target.outside.join("created")).map(drop)),
    ("append", |_, file| OpenOptions::new().append(true).open(file)?.write_all(b"x")),
    ("truncate", |_, file| OpenOptions::new().write(true).truncate(true).open(file).map(drop)),
    ("remove", |_, file| fs::remove_file(file)),
    ("mkdir", |target, _| fs::create_dir(target.outside.join("folder"))),
    ("symlink", |_, file| {
        std::os::unix::fs::symlink(file, "link")?;
        fs::read("link").map(drop)
    }),
    ("symlink-write", |target, _| {
        std::os::unix::fs::symlink(target.outside.join("through"), "link-write")?;
        File::create("link-write").map(drop)
    }),
    ("symlink-folder", |target, file| {
        std::os::unix::fs::symlink(&target.outside, "link-folder")?;
        fs::read(Path::new("link-folder").join(file.file_name().unwrap_or_default())).map(drop)
    }),
    ("hard-link", |_, file| {
        fs::hard_link(file, "hard")?;
        fs::read("hard").map(drop)
    }),
    ("rename-in", |_, file| {
        fs::rename(file, "moved")?;
        fs::read("moved").map(drop)
    }),
    ("rename-out", |target, _| {
        fs::write("own", "x")?;
        fs::rename("own", target.outside.join("own"))
    }),
    ("dot-dot", |target, file| {
        let up = "../".repeat(40);
        fs::read(format!("{up}{}", file.strip_prefix("/").unwrap_or(&target.outside).display())).map(drop)
    }),
    ("open-folder", |_, file| {
        // A descriptor of an own folder leads no further than its path.
        let here = rustix::fs::open(".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let up = format!("{}{}", "../".repeat(40), file.strip_prefix("/").unwrap_or(file).display());
        Ok(rustix::fs::openat(here, up, OFlags::RDONLY, Mode::empty()).map(drop)?)
    }),
    ("proc-self-root", |_, file| {
        fs::read(Path::new("/proc/self/root").join(file.strip_prefix("/").unwrap_or(file))).map(drop)
    }),
    ("proc-host-root", |target, file| {
        let root = PathBuf::from(format!("/proc/{}/root", target.host));
        fs::read(root.join(file.strip_prefix("/").unwrap_or(file))).map(drop)
    }),
    ("proc-host-environ", |target, _| fs::read(format!("/proc/{}/environ", target.host)).map(drop)),
    ("proc-host-memory", |target, _| File::open(format!("/proc/{}/mem", target.host)).map(drop)),
    ("proc-host-command", |target, _| fs::read(format!("/proc/{}/cmdline", target.host)).map(drop)),
    ("grandchild", |_, file| ran(Command::new("/bin/cat").arg(file))),
    ("daemon", |_, file| ran(Command::new("setsid").args(["/bin/cat"]).arg(file))),
    ("descriptor", |_, _| descriptor()),
    ("signal-host", |target, _| signal(Pid::from_raw(target.host))),
    ("signal-guard", |_, _| signal(getppid())),
    ("abstract-socket", |target, _| {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&target.name)?;
        UnixStream::connect_addr(&address).map(drop)
    }),
    ("device", |_, _| {
        let disk = rustix::fs::makedev(1, 1);
        Ok(rustix::fs::mknodat(CWD, "device", FileType::CharacterDevice, Mode::RUSR, disk)?)
    }),
    ("mount", |_, file| {
        ran(Command::new("mount").args(["--bind"]).arg(file.parent().unwrap_or(file)).arg("."))
    }),
];

/// Each needs the network.
const NETWORK: [(&str, Try); 4] = [
    ("tcp-connect", |target, _| TcpStream::connect_timeout(&target.tcp, Duration::from_secs(5)).map(drop)),
    ("tcp-bind", |_, _| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("udp-send", |target, _| UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", target.udp).map(drop)),
    ("tcp-connect-grandchild", |target, _| {
        let word = format!("exec 3<>/dev/tcp/{}/{}", target.tcp.ip(), target.tcp.port());
        ran(Command::new("/bin/bash").args(["-c", &word]))
    }),
];

/// Each is what any program needs to do.
const NEEDS: [(&str, Try); 7] = [
    ("own-write", |_, _| fs::write("mine", "x")),
    ("own-read", |_, _| fs::read("mine").map(drop)),
    ("own-rename", |_, _| fs::create_dir_all("a/b").and_then(|()| fs::rename("mine", "a/b/mine"))),
    ("temporary", |_, _| fs::write(std::env::temp_dir().join("mine"), "x")),
    ("run", |_, _| ran(Command::new("/bin/cat").arg("/etc/passwd"))),
    ("random", |_, _| File::open("/dev/urandom")?.read_exact(&mut [0; 8])),
    ("unix-pair", |_, _| UnixStream::pair().map(drop)),
];

/// Tries everything and writes down what came of it: nothing, or the kind of the refusal.
pub(crate) fn try_all(file: &Path) -> io::Result<()> {
    let target: Target = serde_json::from_slice(&fs::read(file)?)?;
    let mut report = BTreeMap::new();
    for (name, attempt) in TRIES.iter().chain(&NETWORK).chain(&NEEDS) {
        let result = attempt(&target, &target.outside.join(name));
        report.insert(*name, result.err().map(|error| error.to_string()));
    }
    let part = target.report.with_extension("part");
    fs::write(&part, serde_json::to_vec(&report)?)?;
    fs::rename(part, &target.report)
}

fn ran(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    let told = || io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    output.status.success().then_some(()).ok_or_else(told)
}

fn signal(pid: Option<Pid>) -> io::Result<()> {
    Ok(kill_process(pid.ok_or(io::ErrorKind::NotFound)?, Signal::CONT)?)
}

/// An open file or socket that was left to this process; a file under what is its own does not count.
fn descriptor() -> io::Result<()> {
    let leads = (3..256).filter_map(|number| fs::read_link(format!("/proc/self/fd/{number}")).ok());
    let mut found = leads.filter(|to| to.starts_with("/") || to.to_string_lossy().starts_with("socket:"));
    found.next().map(drop).ok_or_else(|| io::Error::other("there is none"))
}
