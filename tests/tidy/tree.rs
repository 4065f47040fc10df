//! The files that the rules look at: read once from the repository, or made up by a self-test.

use std::fs;
use std::path::{Path, PathBuf};

use super::source::{Source, Token};

/// Names that are not ours: built, downloaded, or git's own (a folder, or a file in a worktree).
const SKIPPED: [&str; 8] =
    ["target", "node_modules", ".fixtures", ".venv", ".venv-legacy", ".venv-attacks", ".git", "corpus"];

/// All text files of the repository.
pub(crate) struct Tree {
    /// Sorted by path.
    pub(crate) files: Vec<Source>,
}

impl Tree {
    /// Reads the repository that this test was built from.
    pub(crate) fn read() -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        walk(&root, &root, &mut files);
        assert!(files.len() > 20, "the repository was not found at {}", root.display());
        Self::from_files(files)
    }

    /// A made-up tree.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::from_files(files.iter().map(|(path, text)| Source::new(*path, *text)).collect())
    }

    fn from_files(mut files: Vec<Source>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let test_files: Vec<String> = files
            .iter()
            .flat_map(|f| {
                let roots = ["/mod.rs", "/lib.rs", "/main.rs", ".rs"];
                let folder = roots.iter().find_map(|end| f.path.strip_suffix(end)).unwrap_or(&f.path);
                f.test_mods.iter().map(move |name| format!("{folder}/{name}"))
            })
            .collect();
        for file in &mut files {
            let own = file.path.starts_with("tests/") && !file.path.starts_with("tests/badmcp/");
            let stem = file.path.trim_end_matches(".rs");
            let declared = test_files.iter().any(|t| stem == t || stem.starts_with(&format!("{t}/")));
            if file.is_rust() && (own || declared) {
                file.mark_as_test();
            }
        }
        Self { files }
    }

    /// The file of that path.
    pub(crate) fn get(&self, path: &str) -> Option<&Source> {
        self.files.iter().find(|file| file.path == path)
    }

    /// All Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// Rust files of the library and the programs.
    pub(crate) fn src(&self) -> impl Iterator<Item = &Source> {
        self.rust().filter(|file| file.path.starts_with("src/"))
    }

    /// Names of all test functions: `#[test]`, `#[tokio::test]`, or named in `proptest!`.
    pub(crate) fn test_fns(&self) -> Vec<String> {
        let mut names: Vec<String> = self.rust().flat_map(test_fns_of).collect();
        names.sort();
        names
    }

    /// Whether there is such a test: `name` anywhere, or `it::module::name` in `tests/it/module.rs`.
    pub(crate) fn has_test(&self, name: &str) -> bool {
        let has = |file: &Source, name: &str| test_fns_of(file).iter().any(|test| test == name);
        match name.rsplit_once("::") {
            Some((_, last)) => self.test_file(name).is_some_and(|file| has(file, last)),
            None => self.rust().any(|file| has(file, name)),
        }
    }

    /// The file of a test that is named with its module.
    pub(crate) fn test_file(&self, name: &str) -> Option<&Source> {
        let (path, _) = name.rsplit_once("::")?;
        self.get(&format!("tests/{}.rs", path.replace("::", "/")))
    }
}

/// Names of the test functions of one file, in their order.
fn test_fns_of(file: &Source) -> Vec<String> {
    let tokens = file.tokens();
    let marked =
        |pair: &&[Token]| pair[0].text == "fn" && file.is_test(pair[0].at) && has_test_mark(file, pair[0].at);
    tokens.windows(2).filter(marked).map(|pair| pair[1].text.clone()).collect()
}

/// Whether the attributes directly above the function make it a test.
fn has_test_mark(file: &Source, at: usize) -> bool {
    let before = &file.code[..at];
    let from = before.rfind(['}', ';', '{']).unwrap_or(0);
    let attributes: String = before[from..].chars().filter(|c| !c.is_whitespace()).collect();
    attributes.contains("#[test]") || attributes.contains("::test]") || attributes.contains("::test(")
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<Source>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if SKIPPED.contains(&name.as_str()) || name.starts_with(".venv") {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let inner = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            files.push(Source::new(inner, text));
        }
    }
}
