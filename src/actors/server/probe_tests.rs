//! The answer of a probe: the breaker hears of it before the caller does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::call::{self, Go, Shared, Turn};
use super::msg::Submission;
use super::port::ReplyPort;
use crate::call::{CallLimits, CallRequest, Door, ItemKind, Target};
use crate::config::child_env::Withheld;
use crate::id::{CallId, Generation, SessionId};
use crate::policy::budget::Budget;
use crate::telemetry::Redaction;
use crate::time::Monotonic;
use crate::transport::testpeer::peer;
use crate::transport::{Attempt, Connector, LinkSettings, ProtocolChoice, connect};

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_probe_waits_until_it_is_booked_and_no_other_does() {
    let settings = LinkSettings {
        frame_max: 1 << 20,
        protocol: ProtocolChoice::Auto,
        remembered: None,
        roots: Vec::new(),
        declared: crate::transport::Declared::default(),
        list_timeout: Duration::from_secs(5),
        http: crate::transport::http::Client::new(),
        spawns: crate::transport::spawns::Spawns::default(),
        tap: Default::default(),
    };
    let connector = Connector::Duplex(peer(&["one"]));
    let connection = connect(&connector, &settings, &Attempt::default()).await.unwrap();
    let shared = Arc::new(Shared {
        server: "s".into(),
        redactor: Redaction::default(),
        withheld: Withheld::default(),
        count_tool_errors: false,
    });
    // The second kind of parameters can't be sent: the call fails here.
    for (is_probe, params) in [(false, "{}"), (false, "7"), (true, "{}"), (true, "7")] {
        let target = Target::Direct { server: "s".into(), kind: ItemKind::Tool, name: "one".to_owned() };
        let (reply, mut answer) = ReplyPort::new();
        let submission = Submission {
            request: CallRequest {
                id: CallId::fresh(),
                session: SessionId(0),
                target,
                params: Bytes::from_static(params.as_bytes()),
                limits: CallLimits::default(),
                grant: None,
            },
            carried: Vec::new(),
            door: Door::default(),
            capabilities: None,
            era: None,
            mode: None,
            reach: None,
            events: None,
            reply,
            permit: Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap(),
            admitted: Monotonic::now(),
            repeats: 0,
            failed: None,
        };
        let go = Go {
            legacy: None,
            is_beside: false,
            link: connection.link.clone(),
            generation: Generation(1),
            meta: Arc::new(connection.established.meta.clone()),
            mirrored: Arc::default(),
            is_probe,
        };
        let budget = Budget::new(Monotonic::now(), Duration::from_secs(1), Duration::from_secs(1));
        let settled = call::run(Box::new(submission), Turn::Now(go), budget, shared.clone()).await;
        if is_probe {
            assert!(answer.try_recv().is_err(), "{params}: the caller hears of it before the breaker");
            settled.held.expect("it is held").send();
        } else {
            assert!(settled.held.is_none());
        }
        assert_eq!(answer.try_recv().unwrap().is_ok(), params == "{}");
    }
}
