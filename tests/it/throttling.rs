//! A server that asks to be left alone (HTTP 429, 503 with Retry-After): who waits, who is told
//! to come back, and what is sent again.

use std::time::Duration;

use callboard::call::{CallError, CallLimits, CallReply, Delivery, ErrorCode};
use callboard::runtime::Runtime;
use callboard::view::LifeState;

use crate::http::{Bad, runtime, tuned};
use crate::support::bad::{PATIENCE, until};
use crate::support::{call, request};

/// How many calls reached the server, refused or not.
fn arrived(bad: &Bad) -> usize {
    bad.trace("refused").len() + bad.count("tools/call")
}

/// Calls the tool `count` with a total limit.
async fn within(runtime: &Runtime, total: Duration) -> Result<CallReply, CallError> {
    let mut request = request("s", "count", "{}");
    request.limits = CallLimits { total: Some(total), ..CallLimits::default() };
    tokio::time::timeout(PATIENCE, runtime.frontend().call(request, None)).await.expect("it takes too long")
}

#[tokio::test]
async fn a_call_that_was_put_off_is_sent_once_more_and_others_wait_for_their_turn() {
    let bad = Bad::start("--http-fail 429x1:1@call").await;
    let runtime = runtime(&bad, "s").await;
    let (first, second) = tokio::join!(call(&runtime, "s", "count"), async {
        until("the first call was put off", || arrived(&bad) >= 1).await;
        call(&runtime, "s", "count").await
    });
    assert!(!first.unwrap().is_error && !second.unwrap().is_error);
    assert_eq!((arrived(&bad), bad.executed()), (3, 2));
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_call_whose_deadline_comes_before_the_end_of_the_pause_is_told_at_once() {
    let bad = Bad::start("--http-fail 429x1:60@call").await;
    let runtime = runtime(&bad, "s").await;
    let first = within(&runtime, Duration::from_secs(30)).await.unwrap_err();
    assert_eq!((first.code, first.delivery), (ErrorCode::RateLimited, Delivery::NotSent));
    assert_eq!(first.retry_after, Some(Duration::from_secs(60)));
    for total in [0, 1, 20] {
        let refused = within(&runtime, Duration::from_secs(total)).await.unwrap_err();
        assert_eq!((refused.code, refused.delivery), (ErrorCode::RateLimited, Delivery::NotSent));
        let wait = refused.retry_after.unwrap();
        assert!(wait > Duration::from_secs(30) && wait <= Duration::from_secs(60), "{wait:?}");
        assert!(refused.message.contains("asked to be left alone; try again in"), "{refused}");
    }
    assert_eq!((arrived(&bad), bad.executed()), (1, 0), "nothing is sent in the pause");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_call_that_waits_for_a_place_when_a_pause_begins_is_told_of_the_pause() {
    let bad = Bad::start("--http-fail 429x1:60@call").await;
    let runtime = tuned(&bad, "s", |spec| spec.limits.in_flight = 1).await;
    // Both are on their way before the first is put off; the second has no place.
    let total = Duration::from_secs(30);
    let (first, second) = tokio::join!(within(&runtime, total), within(&runtime, total));
    for refused in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!((refused.code, refused.delivery), (ErrorCode::RateLimited, Delivery::NotSent));
        assert!(refused.retry_after.is_some_and(|wait| wait > Duration::from_secs(30)), "{refused:?}");
    }
    assert_eq!(runtime.status()[0].queued, 0);
    assert_eq!((arrived(&bad), bad.executed()), (1, 0));
    runtime.shutdown().await;
}

#[tokio::test]
async fn the_wait_for_a_place_is_no_limit_for_the_wait_in_a_pause() {
    let bad = Bad::start("--http-fail 429x1:1@call").await;
    let runtime = tuned(&bad, "s", |spec| {
        spec.limits.in_flight = 1;
        spec.timeouts.permit = Duration::from_millis(300);
    })
    .await;
    let total = Duration::from_secs(30);
    let (first, second) = tokio::join!(within(&runtime, total), within(&runtime, total));
    assert!(!first.unwrap().is_error && !second.unwrap().is_error);
    assert_eq!((arrived(&bad), bad.executed()), (3, 2));
    runtime.shutdown().await;
}

#[tokio::test]
async fn an_overload_pauses_the_server_and_its_call_is_not_sent_again() {
    let bad = Bad::start("--http-fail 503x1:60@call").await;
    let runtime = runtime(&bad, "s").await;
    let first = within(&runtime, Duration::from_secs(120)).await.unwrap_err();
    assert_eq!((first.code, first.delivery), (ErrorCode::RateLimited, Delivery::Unknown));
    let second = within(&runtime, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!((second.code, second.delivery), (ErrorCode::RateLimited, Delivery::NotSent));
    assert_eq!(arrived(&bad), 1);
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_server_that_puts_everything_off_gets_each_call_twice_at_most() {
    let bad = Bad::start("--http-fail 429:1@call").await;
    let runtime = runtime(&bad, "s").await;
    let error = within(&runtime, Duration::from_secs(30)).await.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::RateLimited, Delivery::NotSent));
    assert_eq!(arrived(&bad), 2);
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_call_that_waits_for_its_second_try_ends_with_its_server_or_its_caller() {
    let bad = Bad::start("--http-fail 429:60@call").await;
    let runtime = runtime(&bad, "s").await;
    let left = runtime.frontend();
    let leaving = tokio::spawn(async move { left.call(request("s", "count", "{}"), None).await });
    until("the call was put off", || arrived(&bad) == 1).await;
    leaving.abort();
    until("its place is free", || runtime.status()[0].in_flight == 0).await;

    let staying = runtime.frontend();
    let staying = tokio::spawn(async move { staying.call(request("s", "count", "{}"), None).await });
    until("the next one waits", || runtime.status()[0].queued == 1).await;
    let began = std::time::Instant::now();
    runtime.shutdown().await;
    assert!(staying.await.unwrap().is_err());
    assert!(began.elapsed() < Duration::from_secs(30), "the pause is not waited for");
}
