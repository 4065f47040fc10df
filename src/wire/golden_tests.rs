//! The golden files in `tests/golden/wire`: messages with everything that a typed model of
//! the protocol drops, sorts or refuses pass through as they are, and crossing the eras changes
//! what the table says and nothing else.

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};

use super::envelope::{self, Envelope};
use super::era::Era;
use super::frame::{FrameEvent, Framer};
use super::splice::{self, AnswerSplice, MetaRewrite, RequestSplice};

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", "wire"].iter().collect()
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The cases of a golden text file: blocks of lines, comments left out.
fn cases(name: &str, lines: usize) -> Vec<Vec<String>> {
    let text = read(name);
    let cases: Vec<Vec<String>> = text
        .split("\n\n")
        .map(|block| block.lines().filter(|l| !l.starts_with("# ")).map(str::to_owned).collect())
        .filter(|block: &Vec<String>| !block.is_empty())
        .collect();
    assert!(cases.iter().all(|case| case.len() == lines), "{name}: every case has {lines} lines");
    cases
}

fn passing() -> Vec<(String, Bytes)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder().join("passes")).unwrap() {
        let path = entry.unwrap().path();
        let mut buf = BytesMut::from(&std::fs::read(&path).unwrap()[..]);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match Framer::new(1 << 20).next(&mut buf) {
            Some(FrameEvent::Line(line)) if buf.is_empty() => all.push((name, line)),
            other => panic!("{name} is not one line: {other:?}"),
        }
    }
    assert_eq!(all.len(), 28, "every golden file is read");
    all
}

#[test]
fn what_we_do_not_understand_passes_byte_for_byte() {
    for (name, frame) in passing() {
        let id = match envelope::parse(&frame) {
            Ok(Envelope::Response(response)) => {
                assert_eq!(response.number, Some(4242), "{name}");
                let back = splice::answer(&AnswerSplice {
                    frame: &frame,
                    id: response.id.clone(),
                    body: response.body,
                    is_error: response.is_error,
                    caller_id: b"\"caller\"",
                    method: "tools/call",
                    adapt: None,
                });
                assert_eq!(back, splice::replace(&frame, response.id.clone(), b"\"caller\""), "{name}");
                response.id
            }
            Ok(Envelope::Request { id, .. }) => id,
            Ok(Envelope::Notification { .. }) => continue,
            Err(error) => panic!("{name}: {error:?}"),
        };
        let text = std::str::from_utf8(&frame).unwrap();
        assert_eq!(text.matches("4242").count(), 1, "{name}: the id is the only 4242");
        let expected = text.replace("4242", "\"caller\"");
        let back = splice::replace(&frame, id, b"\"caller\"").to_bytes();
        assert_eq!(std::str::from_utf8(&back).unwrap(), expected, "{name}");
    }
}

#[test]
fn params_of_requests_and_notifications_are_found_whole() {
    for (name, expected) in [
        ("method-custom.json", r#"{"z":1,"a":1.10,"_meta":{"k":1}}"#),
        ("notification-custom.json", r#"{"z":1E400,"a":[1,2.0]}"#),
        ("notification-progress.json", r#"{"progressToken":4242,"progress":1,"total":1,"message":"é"}"#),
    ] {
        let (_, frame) = passing().into_iter().find(|(file, _)| file == name).unwrap();
        let (Ok(Envelope::Request { params, .. }) | Ok(Envelope::Notification { params, .. })) =
            envelope::parse(&frame)
        else {
            panic!("{name}")
        };
        assert_eq!(&frame[params.unwrap()], expected.as_bytes());
    }
}

#[test]
fn answers_cross_the_eras_as_the_table_says() {
    let cases = cases("era.txt", 3);
    assert!(cases.len() >= 16);
    for case in cases {
        let (era, method) = case[0].split_once(' ').unwrap();
        let adapt = Some(if era == "modern" { Era::Modern } else { Era::Legacy });
        let frame = Bytes::from(case[1].clone());
        let Ok(Envelope::Response(r)) = envelope::parse(&frame) else { panic!("{}", case[1]) };
        let back = splice::answer(&AnswerSplice {
            frame: &frame,
            id: r.id,
            body: r.body,
            is_error: r.is_error,
            caller_id: b"\"caller\"",
            method,
            adapt,
        });
        assert_eq!(std::str::from_utf8(&back.to_bytes()).unwrap(), case[2], "{era} {method} {}", case[1]);
    }
}

#[test]
fn params_leave_as_the_table_says() {
    let modern = MetaRewrite::Modern {
        revision: "2026-07-28".to_owned(),
        capabilities: Bytes::from_static(br#"{"c":1}"#),
        client_info: Bytes::from_static(br#"{"name":"i"}"#),
    };
    let cases = cases("requests.txt", 3);
    assert!(cases.len() >= 8);
    for case in cases {
        let parts = splice::request(&RequestSplice {
            session: None,
            id: 4242,
            method: "tools/call",
            params: &Bytes::from(case[1].clone()),
            name: Some(("name", "raw \"näme\"")),
            arguments_default: true,
            progress: true,
            meta: if case[0] == "modern" { &modern } else { &MetaRewrite::Legacy },
        })
        .unwrap();
        let expected = format!(r#"{{"jsonrpc":"2.0","id":4242,"method":"tools/call","params":{}}}"#, case[2]);
        assert_eq!(std::str::from_utf8(&parts.to_bytes()).unwrap(), expected, "{}", case[1]);
    }
}
