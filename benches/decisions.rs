//! What the pure decisions cost, without any I/O: the wire, by size and shape of the message; the fence by kind of
//! text; the redactor; the circuit breaker. Figures are the best of many rounds; those of the wire are told as ratios to
//! serde_json's quickest look at the same bytes too, which builds nothing.
//!
//! `cargo bench --bench decisions`

#![expect(clippy::disallowed_macros, reason = "a bench prints its table")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use callboard::call::BreakerClass;
use callboard::config::spec::{BreakerSpec, SecretText};
use callboard::policy::breaker::{Admit, Breaker, Loss};
use callboard::shaping::redact::Redactor;
use callboard::time::Monotonic;
use callboard::wire::frame::Framer;
use callboard::wire::splice::{self, AnswerSplice, MetaRewrite, RequestSplice};
use callboard::wire::{envelope, era::Era, scan};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

fn main() {
    println!(
        "{:<18} {:>8}  {:<10} {:>10} {:>8} {:>8}",
        "message", "bytes", "decision", "µs", "GB/s", "× serde"
    );
    for (name, result) in results() {
        let frame = Bytes::from(json!({"jsonrpc": "2.0", "id": 7, "result": result}).to_string());
        let serde = best(&frame, || {
            let seen: Result<IgnoredAny, _> = serde_json::from_slice(&frame);
            black_box(seen.is_ok());
        });
        row(name, &frame, "serde", serde, serde);
        let took = best(&frame, || {
            let _ = black_box(scan::check(&frame, scan::DEPTH_MAX));
        });
        row(name, &frame, "scan", took, serde);
        let took = best(&frame, || drop(black_box(envelope::parse(&frame))));
        row(name, &frame, "envelope", took, serde);
        row(name, &frame, "frame", framing(&frame), serde);
        row(name, &frame, "answer", answering(&frame), serde);
        row(name, &frame, "request", requesting(&frame), serde);
        row(name, &frame, "redact", redacting(&frame), serde);
    }
    fencing();
    println!("\n{:<18} {:>10}  (goal: 2 µs)", "breaker", "µs");
    for (name, took) in breaker() {
        println!("{name:<18} {:>10.3}", took.as_secs_f64() * 1e6);
    }
}

/// One look of the breaker at a call, in each of its states; with the books of the call where it passes.
fn breaker() -> [(&'static str, Duration); 3] {
    let now = Monotonic::now();
    let spec = BreakerSpec { failures: 1, ..BreakerSpec::default() };
    let mut closed = Breaker::new(spec);
    let passes = best_of(200, 1_000, || {
        if let Admit::Pass(pass) = black_box(closed.admit(now, true)) {
            black_box(closed.settle(pass, BreakerClass::Heal, Loss::None, now));
        }
    });
    let mut open = Breaker::new(spec);
    if let Admit::Pass(pass) = open.admit(now, true) {
        open.settle(pass, BreakerClass::Trip, Loss::None, now);
    }
    let mut probed = open.clone();
    let refuses = best_of(200, 1_000, || {
        black_box(open.admit(now, true));
    });
    let later = now + spec.open_for;
    let _ = probed.admit(later, true);
    let probes = best_of(200, 1_000, || {
        black_box(probed.admit(later, true));
    });
    [("closed, pass", passes), ("open, refusal", refuses), ("half-open, refusal", probes)]
}

/// What it takes to make 1 MiB harmless for a model: of every kind of text that goes another way.
fn fencing() {
    println!("\n{:<18} {:>8}  {:<10} {:>10} {:>8}", "text", "bytes", "decision", "ms", "MB/s");
    for (name, unit) in [
        ("plain", "lorem ipsum dolor sit amet, consectetur\n"),
        ("code", "if (a[i] < b && c->d[j] > 0x3c) { return \"x\\n\"; }\n"),
        ("html", "<p class=\"x\">5 &lt; 6 &amp; <b>bold</b> <a href=\"/a%20b\">link</a></p>\n"),
        ("json", "{\"id\": 17, \"text\": \"caf\\u00e9 \\\"x\\\"\", \"list\": [1, [2, 3]]},\n"),
        ("accents", "Ça a été créé à Zürich, où les élèves étaient très étonnés.\n"),
        ("wide", "日本語の文章です。한국어 문장입니다. 👩‍👩‍👧 mixed\n"),
        ("cyrillic", "Съешь же ещё этих мягких французских булок.\n"),
        ("hostile", "<|im_start|>[INST]&lt;s&gt;<<<END_UNTRUSTED_CONTENT>>>\u{200b}"),
    ] {
        let text = unit.repeat((1 << 20) / unit.len() + 1);
        let took = best(&Bytes::from(text.clone()), || {
            drop(black_box(callboard::shaping::sanitise::sanitise(&text)))
        });
        let rate = text.len() as f64 / took.as_secs_f64() / 1e6;
        println!(
            "{name:<18} {:>8}  {:<10} {:>10.2} {rate:>8.0}",
            text.len(),
            "sanitise",
            took.as_secs_f64() * 1e3
        );
    }
}

/// Results of every kind that matters to a scan.
fn results() -> Vec<(&'static str, Value)> {
    let rows: Vec<Value> = (0..4000)
        .map(|i| {
            json!({"id": i, "name": format!("item {i}"), "price": f64::from(i) * 1.37, "tags": ["alpha", "beta"],
                "active": i % 3 == 0, "parent": null, "at": {"x": i, "y": -i}, "note": "some text"})
        })
        .collect();
    let pretty = serde_json::to_string_pretty(&rows).unwrap_or_default();
    let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
    let mut seed = 7;
    vec![
        ("64 B", json!({"content": []})),
        ("1 KB text", text("lorem ipsum dolor sit amet ".repeat(36))),
        ("1 KB structured", json!({"structuredContent": rows[..7]})),
        ("plain text", text("lorem ipsum dolor sit amet ".repeat(38_000))),
        ("wide text", text("漢字 é🎉 mixed text ".repeat(30_000))),
        ("escaped text", text(pretty)),
        ("structured", json!({"structuredContent": {"rows": rows}})),
        ("irregular", json!({"rows": (0..6000).map(|_| irregular(&mut seed, 4)).collect::<Value>()})),
        ("numbers", json!({"rows": (0..100_000).map(|i| f64::from(i) * 0.731).collect::<Value>()})),
    ]
}

/// A value whose shape no branch predictor can learn.
fn irregular(seed: &mut u64, depth: u32) -> Value {
    let mut next = |below: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    };
    match next(if depth == 0 { 5 } else { 8 }) {
        0 => json!(next(100_000)),
        1 => json!(next(1 << 30) as f64 / 1000.0),
        2 => json!(next(2) == 0),
        3 => Value::Null,
        4 => json!("x".repeat(next(40) as usize)),
        5 => (0..next(8)).map(|_| irregular(seed, depth - 1)).collect(),
        _ => {
            let count = next(9);
            (0..count)
                .map(|i| (format!("{}{i}", "k".repeat(i as usize)), irregular(seed, depth - 1)))
                .collect()
        }
    }
}

fn framing(frame: &Bytes) -> Duration {
    let line = [&frame[..], b"\n"].concat();
    best(frame, || {
        let mut buf = BytesMut::from(&line[..]);
        black_box(Framer::new(1 << 24).next(&mut buf));
    })
}

fn answering(frame: &Bytes) -> Duration {
    let Ok(envelope::Envelope::Response(response)) = envelope::parse(frame) else { return Duration::ZERO };
    best(frame, || {
        black_box(splice::answer(&AnswerSplice {
            frame,
            id: response.id.clone(),
            body: response.body.clone(),
            is_error: false,
            caller_id: b"\"caller\"",
            method: "tools/call",
            adapt: Some(Era::Modern),
        }));
    })
}

/// Fifty known values, and every form.
fn redacting(frame: &Bytes) -> Duration {
    let values: Vec<SecretText> = (0..50).map(|i| SecretText::new(format!("secret-value-{i}"))).collect();
    let redactor = Redactor::new(&values);
    let text = String::from_utf8_lossy(frame);
    best(frame, || {
        black_box(redactor.text(&text));
    })
}

/// The message as the arguments of a call.
fn requesting(frame: &Bytes) -> Duration {
    let params = Bytes::from([br#"{"name":"a__b","arguments":"#, &frame[..], b"}"].concat());
    best(frame, || {
        let parts = splice::request(&RequestSplice {
            session: None,
            id: 7,
            method: "tools/call",
            params: &params,
            name: Some(("name", "b")),
            arguments_default: true,
            progress: true,
            meta: &MetaRewrite::Legacy,
        });
        drop(black_box(parts));
    })
}

/// The shortest of many rounds; short ones are repeated within a round.
fn best(frame: &Bytes, once: impl FnMut()) -> Duration {
    let (rounds, repeats) = if frame.len() < 10_000 { (200, 200) } else { (60, 1) };
    best_of(rounds, repeats, once)
}

fn best_of(rounds: u32, repeats: u32, mut once: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        #[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
        let start = Instant::now();
        for _ in 0..repeats {
            once();
        }
        best = best.min(start.elapsed() / repeats);
    }
    best
}

fn row(name: &str, frame: &Bytes, decision: &str, took: Duration, serde: Duration) {
    let seconds = took.as_secs_f64();
    println!(
        "{name:<18} {:>8}  {decision:<10} {:>10.2} {:>8.2} {:>8.2}",
        frame.len(),
        seconds * 1e6,
        frame.len() as f64 / seconds / 1e9,
        seconds / serde.as_secs_f64(),
    );
}
