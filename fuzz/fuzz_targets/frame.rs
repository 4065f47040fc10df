//! Lines of the stdio transport: any chunking, against a plain reading line by line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| callboard::wire::fuzz_checks::frame(data));
