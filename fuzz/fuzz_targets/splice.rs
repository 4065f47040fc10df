//! A caller's params on their way to a server, against serde_json.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| callboard::wire::fuzz_checks::splice(data));
