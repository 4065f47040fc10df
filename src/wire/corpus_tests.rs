//! Replays the corpus of the fuzz targets, so that what fuzzing has found stays mended.

use super::fuzz_checks;

fn replay(target: &str, inputs_min: usize, check: fn(&[u8])) {
    let folder: std::path::PathBuf = [env!("CARGO_MANIFEST_DIR"), "fuzz", "corpus", target].iter().collect();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        if std::panic::catch_unwind(|| check(&data)).is_err() {
            panic!("{} does not hold any more", path.display());
        }
        count += 1;
    }
    assert!(count >= inputs_min, "{target}: only {count} inputs");
}

#[test]
fn corpus_of_frame_holds() {
    replay("frame", 29, fuzz_checks::frame);
}

#[test]
fn corpus_of_envelope_holds() {
    replay("envelope", 82, fuzz_checks::envelope);
}

#[test]
fn corpus_of_splice_holds() {
    replay("splice", 46, fuzz_checks::splice);
}

#[test]
fn corpus_of_sse_holds() {
    replay("sse", 35, fuzz_checks::sse);
}
