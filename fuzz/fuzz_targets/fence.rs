//! A text of a server: one fence, no token, a second pass changes nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| callboard::shaping::fuzz_checks::fence(data));
