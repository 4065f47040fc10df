//! Replays the corpus of the fuzz target, so that what fuzzing has found stays mended.

use super::fuzz_checks;

#[test]
fn corpus_of_fence_holds() {
    let folder: std::path::PathBuf = [env!("CARGO_MANIFEST_DIR"), "fuzz", "corpus", "fence"].iter().collect();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        let held = std::panic::catch_unwind(|| fuzz_checks::fence(&data));
        assert!(held.is_ok(), "{} does not hold any more", path.display());
        count += 1;
    }
    assert!(count >= 40, "only {count} inputs");
}
