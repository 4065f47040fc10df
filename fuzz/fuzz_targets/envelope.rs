//! One frame: scan, spans, envelope rules and answers against serde_json.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| callboard::wire::fuzz_checks::envelope(data));
