//! Floor 5. Texts that a command reads besides its words: files named with `@`, and
//! stdin. Bounded. Used by `call`, `prompt` and `add-json`.

use std::io::Read;
use std::path::Path;

use super::call_args::{ARGUMENTS_LEN_MAX, ReadText, Unread};

/// The real files and the real stdin.
#[derive(Debug)]
pub struct Stdin;

impl ReadText for Stdin {
    fn file(&mut self, path: &str) -> Result<String, Unread> {
        let path = Path::new(path);
        if path.is_dir() {
            return Err(Unread::Other("it is a folder".to_owned()));
        }
        let file = std::fs::File::open(path).map_err(other)?;
        let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        bounded(file, size)
    }

    fn stdin(&mut self) -> Result<String, Unread> {
        bounded(std::io::stdin().lock(), None)
    }
}

fn other(error: std::io::Error) -> Unread {
    Unread::Other(error.to_string())
}

/// `size` in bytes, where it is known beforehand.
fn bounded(from: impl Read, size: Option<u64>) -> Result<String, Unread> {
    let max = ARGUMENTS_LEN_MAX as u64;
    if size.is_some_and(|size| size > max) {
        return Err(Unread::TooLarge(size));
    }
    // Bytes first: a cut in the middle of a character is still too much, and not bad text.
    let mut bytes = Vec::new();
    from.take(max + 1).read_to_end(&mut bytes).map_err(other)?;
    if bytes.len() as u64 > max {
        return Err(Unread::TooLarge(None));
    }
    String::from_utf8(bytes).map_err(|_| Unread::Other("it is not UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_and_a_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, "{\"a\":1}").unwrap();
        assert_eq!(Stdin.file(path.to_str().unwrap()).unwrap(), "{\"a\":1}");
        assert!(Stdin.file(dir.path().to_str().unwrap()).unwrap_err().to_string().contains("folder"));
        assert!(Stdin.file("/no/such/file").is_err());
        std::fs::write(&path, [0xff]).unwrap();
        assert!(Stdin.file(path.to_str().unwrap()).is_err(), "not UTF-8");
    }

    #[test]
    fn more_than_the_bound_is_refused_with_limit_and_size() {
        assert_eq!(bounded(std::io::repeat(b'x'), None), Err(Unread::TooLarge(None)));
        assert_eq!(bounded("é".repeat(ARGUMENTS_LEN_MAX).as_bytes(), None), Err(Unread::TooLarge(None)));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        std::fs::File::create(&path).unwrap().set_len(ARGUMENTS_LEN_MAX as u64 + 1).unwrap();
        let told = Stdin.file(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(told.contains("16777217 bytes") && told.contains("at most 16.0 MiB"), "{told}");
    }
}
