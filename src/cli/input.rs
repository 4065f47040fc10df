//! Floor 5. Texts that a command reads besides its words: files named with `@`, and
//! stdin. Bounded. Used by `call`, `prompt` and `add-json`.

use std::io::Read;
use std::path::Path;

use super::call_args::{ARGUMENTS_LEN_MAX, ReadText};

/// The real files and the real stdin.
#[derive(Debug)]
pub struct Stdin;

impl ReadText for Stdin {
    fn file(&mut self, path: &str) -> Result<String, String> {
        let path = Path::new(path);
        if path.is_dir() {
            return Err("it is a folder".to_owned());
        }
        let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
        bounded(file)
    }

    fn stdin(&mut self) -> Result<String, String> {
        bounded(std::io::stdin().lock())
    }
}

fn bounded(from: impl Read) -> Result<String, String> {
    let mut text = String::new();
    let limit = ARGUMENTS_LEN_MAX as u64 + 1;
    from.take(limit).read_to_string(&mut text).map_err(|e| e.to_string())?;
    if text.len() > ARGUMENTS_LEN_MAX {
        return Err(format!("it has more than {ARGUMENTS_LEN_MAX} bytes"));
    }
    Ok(text)
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
        assert!(Stdin.file(dir.path().to_str().unwrap()).unwrap_err().contains("folder"));
        assert!(Stdin.file("/no/such/file").is_err());
        std::fs::write(&path, [0xff]).unwrap();
        assert!(Stdin.file(path.to_str().unwrap()).is_err(), "not UTF-8");
    }

    #[test]
    fn more_than_the_bound_is_refused() {
        assert!(bounded(std::io::repeat(b'x')).unwrap_err().contains("bytes"));
    }
}
