//! Ways out of a folder, one by one, and one that moves.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

const MAX: u64 = 1000;

struct Desk {
    _keep: tempfile::TempDir,
    outside: PathBuf,
    root: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let at = keep.path().canonicalize().unwrap();
        let (outside, root) = (at.join("outside"), at.join("root"));
        for folder in [&outside, &root, &root.join("in"), &root.join(".git/hooks"), &root.join("own")] {
            fs::create_dir_all(folder).unwrap();
        }
        // Whose name begins like the folder's is not in it.
        fs::create_dir(at.join("root-2")).unwrap();
        fs::write(at.join("root-2/secret"), "secret").unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        fs::write(root.join("in/file"), "mine").unwrap();
        fs::write(root.join("own/mcp.json"), "secret").unwrap();
        Self { _keep: keep, outside, root }
    }

    /// Both ways: that of this kernel, and that of one without it.
    fn roots(&self) -> [Root; 2] {
        let open = |way| Root { way, ..Root::open(&self.root, &[self.root.join("own")]).unwrap() };
        [open(Way::Kernel), open(Way::Steps)]
    }
}

/// Links of every kind, files that nobody may touch, a pipe, and one that is too large.
fn lay_traps(root: &Path, out: &Path) {
    let link = |to: &Path, name: &str| symlink(to, root.join(name)).unwrap();
    link(&out.join("secret"), "to-file");
    link(out, "to-folder");
    link(Path::new("../outside/secret"), "up");
    link(Path::new("to-file"), "twice");
    link(Path::new("/"), "slash");
    link(Path::new("/proc/self/root"), "magic");
    link(Path::new("/proc/self/cwd"), "here");
    link(Path::new("round"), "round");
    link(&out.join("new"), "to-new");
    fs::hard_link(out.join("secret"), root.join("in/.env")).unwrap();
    fs::write(root.join(".env"), "secret").unwrap();
    fs::write(root.join("key.pem"), "secret").unwrap();
    link(Path::new(".env"), "innocent");
    rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::write(root.join("large"), vec![0; 1001]).unwrap();
}

/// Paths that must not be read.
const READS: &str = "../outside/secret in/../../outside/secret ./../outside/secret to-file to-folder/secret up \
                     twice here/secret round .. . in pipe large in/.env .env key.pem innocent own/mcp.json \
                     in/file/x gone";
/// Paths that must not be written.
const WRITES: &str = "../outside/new to-folder/new to-new to-file up in .git/hooks/pre-commit .bashrc .mcp.json \
                      own/new pipe id_rsa gone/new in/../new";

#[test]
fn no_path_leads_out_of_the_folder() {
    let desk = Desk::new();
    let (root, out) = (&desk.root, &desk.outside);
    lay_traps(root, out);
    let absolute = out.join("secret").display().to_string();
    let mut reads: Vec<String> = READS.split_whitespace().map(str::to_owned).collect();
    reads.extend([
        absolute.clone(),
        format!("{}-2/secret", root.display()),
        format!("slash{absolute}"),
        format!("magic{absolute}"),
        format!("/proc/self/root{absolute}"),
        format!("{}/../outside/secret", root.display()),
        format!("{}outside/secret", "in/../".repeat(40)),
        String::new(),
        "in/\0".to_owned(),
    ]);
    let mut writes: Vec<String> = WRITES.split_whitespace().map(str::to_owned).collect();
    writes.extend([absolute, String::new()]);
    assert!(reads.len() + writes.len() >= 40);
    for given in desk.roots() {
        for path in &reads {
            let read = given.read(Path::new(path), MAX);
            assert!(read.is_err(), "{path:?} {:?}: {read:?}", given.way);
        }
        for path in &writes {
            let written = given.write(Path::new(path), b"x");
            assert!(written.is_err(), "{path:?} {:?}", given.way);
        }
        assert_eq!(fs::read(out.join("secret")).unwrap(), b"secret");
        assert_eq!(fs::read_dir(out).unwrap().count(), 1);
        let left = |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with(".tmp");
        assert!(!fs::read_dir(root).unwrap().flatten().any(left));
    }
}

#[test]
fn what_is_in_the_folder_is_read_and_written_and_new_files_are_private() {
    let desk = Desk::new();
    symlink("in/file", desk.root.join("inner")).unwrap();
    for (round, given) in desk.roots().into_iter().enumerate() {
        let absolute = desk.root.join("in/file");
        for path in [Path::new("in/file"), Path::new("./in//file"), &absolute] {
            assert_eq!(given.read(path, MAX).unwrap(), b"mine");
        }
        // A link that stays inside is followed where the kernel sees to it that it does.
        assert_eq!(given.read(Path::new("inner"), MAX).is_ok(), given.way == Way::Kernel);
        assert!(matches!(given.read(Path::new("in/file"), 3), Err(PathError::TooLarge(_, 3))));
        let new = format!("in/new-{round}");
        given.write(Path::new(&new), b"one").unwrap();
        let mode = |name: &str| fs::metadata(desk.root.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&new), 0o600);
        fs::set_permissions(desk.root.join(&new), fs::Permissions::from_mode(0o755)).unwrap();
        given.write(Path::new(&new), b"two").unwrap();
        assert_eq!((mode(&new), fs::read(desk.root.join(&new)).unwrap()), (0o755, b"two".to_vec()));
        assert!(given.read(Path::new("gone"), MAX).unwrap_err().to_string().starts_with("gone: "));
    }
}

#[test]
fn a_folder_that_was_moved_away_is_still_the_one_that_is_meant() {
    let desk = Desk::new();
    let [given, _] = desk.roots();
    let moved = desk.root.with_file_name("moved");
    fs::rename(&desk.root, &moved).unwrap();
    symlink(&desk.outside, &desk.root).unwrap();
    assert!(given.read(Path::new("secret"), MAX).is_err());
    assert!(given.write(Path::new("new"), b"x").is_err(), "it is not where it was allowed any more");
    assert_eq!(fs::read_dir(&desk.outside).unwrap().count(), 1);
}

/// How many tries; set `CALLBOARD_RACE_TRIES` for more.
#[expect(clippy::disallowed_methods, reason = "a run by hand is as long as its user says")]
fn tries() -> usize {
    std::env::var("CALLBOARD_RACE_TRIES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(20_000)
}

#[test]
fn a_link_that_is_swapped_in_while_a_path_is_followed_leads_nowhere() {
    use rustix::fs::{RenameFlags, renameat_with};
    let desk = Desk::new();
    fs::create_dir(desk.root.join("swap")).unwrap();
    fs::write(desk.root.join("swap/secret"), "mine").unwrap();
    symlink(&desk.outside, desk.root.join("other")).unwrap();
    let done = AtomicBool::new(false);
    let (a, b) = (desk.root.join("swap"), desk.root.join("other"));
    let counted = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut counted = [0_usize; 2];
        for given in desk.roots() {
            for round in 0..tries() / 2 {
                match given.read(Path::new("swap/secret"), MAX) {
                    Ok(bytes) => {
                        assert_eq!(bytes, b"mine");
                        counted[0] += 1;
                    }
                    Err(_) => counted[1] += 1,
                }
                if round % 4 == 0 {
                    let _ = given.write(Path::new("swap/new"), b"x");
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        counted
    });
    assert!(counted.iter().all(|count| *count > 0), "both must be met: {counted:?}");
    let outside: Vec<_> =
        fs::read_dir(&desk.outside).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(outside, ["secret"]);
    assert_eq!(fs::read(desk.outside.join("secret")).unwrap(), b"secret");
}
