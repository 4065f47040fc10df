//! Floor 5. `-o FILE`: writes the binary parts of a result to files, several with
//! numbers. Overwrites what the user names, as a shell's `>` would. Used by `call` and
//! `read`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::exit::Exit;
use super::failure::Failure;
use crate::shaping::render::Rendered;

/// Writes the binary parts. Returns the files; empty when there is no such part.
pub fn save(rendered: &Rendered, to: &Path) -> Result<Vec<PathBuf>, Failure> {
    let parts: Vec<_> = rendered.blocks.iter().filter_map(|block| block.binary.as_ref()).collect();
    let mut saved = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        let path = if parts.len() == 1 { to.to_owned() } else { numbered(to, index + 1) };
        let bytes = part.decode().map_err(|e| {
            Failure::io(Exit::Unhealthy, format!("part {} can't be saved: {e}", index + 1))
                .fix("`--json` shows the result as the server sent it")
        })?;
        write(&path, &bytes)?;
        saved.push(path);
    }
    Ok(saved)
}

/// Writes one file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| {
        Failure::io(Exit::Unhealthy, format!("can't write {}: {e}", path.display()))
            .fix("the call itself has run; check the path and its permissions")
    })
}

/// `out.png` with a number: `out-2.png`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().map_or_else(OsString::new, OsString::from);
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaping::render::render_result;
    use bytes::Bytes;

    fn rendered(parts: &[&str]) -> Rendered {
        let blocks: Vec<String> = parts
            .iter()
            .map(|data| format!(r#"{{"type":"image","mimeType":"image/png","data":"{data}"}}"#))
            .collect();
        render_result(&Bytes::from(format!(r#"{{"content":[{}]}}"#, blocks.join(","))))
    }

    #[test]
    fn one_part_gets_the_name_and_several_get_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("out.png");
        assert_eq!(save(&rendered(&["AQID"]), &to).unwrap(), std::slice::from_ref(&to));
        assert_eq!(std::fs::read(&to).unwrap(), [1, 2, 3]);
        let saved = save(&rendered(&["AQID", "BAUG"]), &to).unwrap();
        assert_eq!(saved, [dir.path().join("out-1.png"), dir.path().join("out-2.png")]);
        assert_eq!(std::fs::read(&saved[1]).unwrap(), [4, 5, 6]);
        assert_eq!(save(&rendered(&[]), &to).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_part_that_can_not_be_written_says_where_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let failure = save(&rendered(&["AQID"]), &dir.path().join("no/such/dir.png")).unwrap_err();
        assert_eq!(failure.exit, Exit::Unhealthy);
        assert!(failure.message.contains("no/such/dir.png"), "{}", failure.message);
        assert!(save(&rendered(&["!"]), &dir.path().join("x")).unwrap_err().message.contains("part 1"));
    }

    #[test]
    fn numbers_go_before_the_extension() {
        assert_eq!(numbered(Path::new("a/b.tar.gz"), 3), Path::new("a/b.tar-3.gz"));
        assert_eq!(numbered(Path::new("plain"), 1), Path::new("plain-1"));
    }
}
