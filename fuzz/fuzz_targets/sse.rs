//! An event stream: any chunking, against the standard read line by line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| callboard::wire::fuzz_checks::sse(data));
