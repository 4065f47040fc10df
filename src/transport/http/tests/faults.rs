//! Statuses that are no answer: logins, throttling, server faults, and what is told of them.

use super::*;
use crate::call::Delivery;

async fn failing(reply: impl Fn() -> Answer + Send + Sync + 'static) -> Rig {
    legacy(move |seen| if seen.method() == "tools/call" { reply() } else { polite(seen) }).await
}

#[tokio::test]
async fn a_401_or_403_needs_auth_and_names_realm_and_scope() {
    for status in [401, 403] {
        let rig = failing(move || {
            Answer::status(status)
                .with(
                    "www-authenticate",
                    r#"Bearer realm="files", scope="read", error_description="canary-key""#,
                )
                .body("secret canary-key")
        })
        .await;
        let error = rig.fault("tools/call").await;
        let ExchangeFault::NeedsAuth(text) = &error.fault else { panic!("{error:?}") };
        assert!(
            text.contains(&status.to_string()) && text.contains("\"files\"") && text.contains("\"read\"")
        );
        assert!(!text.contains("canary"), "{text}");
        assert_eq!(error.delivery, Delivery::NotSent);
    }
}

#[tokio::test]
async fn a_401_with_an_error_body_still_needs_auth() {
    let rig = failing(|| Answer::error(401, &2.into(), -32001, "unauthorized")).await;
    assert!(matches!(rig.fault("tools/call").await.fault, ExchangeFault::NeedsAuth(_)));
    let rig = failing(|| Answer::error(403, &2.into(), -32001, "forbidden")).await;
    assert!(matches!(rig.fault("tools/call").await.fault, ExchangeFault::NeedsAuth(_)));
}

#[tokio::test]
async fn throttling_is_told_with_the_wait_that_was_asked_for() {
    let cases = [(429, Some("7"), 7), (429, None, 5), (503, Some("2"), 2), (429, Some("86400"), 300)];
    for (status, retry_after, want) in cases {
        let rig = failing(move || match retry_after {
            Some(value) => Answer::status(status).with("retry-after", value),
            None => Answer::status(status),
        })
        .await;
        let error = rig.fault("tools/call").await;
        assert_eq!(error.fault, ExchangeFault::Throttled(Duration::from_secs(want)), "{status}");
        let delivery = if status == 429 { Delivery::NotSent } else { Delivery::Unknown };
        assert_eq!(error.delivery, delivery, "only 429 proves that nothing ran");
    }
}

#[tokio::test]
async fn a_server_fault_is_told_with_status_and_start_of_the_body_without_our_secrets() {
    for (status, delivery) in [
        (500, Delivery::Unknown),
        (502, Delivery::Unknown),
        (503, Delivery::Unknown),
        (408, Delivery::Unknown),
        (413, Delivery::NotSent),
    ] {
        let rig = failing(move || {
            Answer::status(status).body(format!("x-api-key: canary-key\n{}", "é".repeat(5000)))
        })
        .await;
        let error = rig.fault("tools/call").await;
        let ExchangeFault::Http { status: told, body } = &error.fault else { panic!("{error:?}") };
        assert_eq!(*told, status);
        assert!(body.starts_with("x-api-key: [redacted]") && body.len() <= 2048, "{body}");
        assert_eq!(error.delivery, delivery, "{status}");
    }
}

#[tokio::test]
async fn a_refusal_whose_body_never_ends_is_told_all_the_same() {
    let (tx, feed) = super::super::testserver::feed();
    tx.send(b"the start".to_vec()).unwrap();
    let feed = Once::new(feed);
    let rig = failing(move || Answer::Stream {
        status: 500,
        content_type: "text/plain".into(),
        feed: feed.take().unwrap(),
    })
    .await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(error.fault, ExchangeFault::Http { status: 500, .. }), "{error:?}");
    rig.server.until_left(1).await;
    drop(tx);
}
