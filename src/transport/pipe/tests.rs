//! A request that was taken back before it left never leaves.

use std::sync::Arc;

use super::*;
use crate::transport::inbound::InboundEnds;
use crate::transport::link::Link;

#[tokio::test]
async fn a_request_that_was_taken_back_before_it_left_is_never_heard_of() {
    let InboundEnds { inbound, events: _events, ended } = Inbound::open(Vec::new(), 1024);
    let (writer, queue) = PipeWriter::new(inbound.clone());
    let (stop, _stop_asked) = mpsc::channel(STOP_ASKS_MAX);
    let (_gone_in, gone) = watch::channel(false);
    let carrier = Arc::new(PipeCarrier { writer, stop, gone, child: None });
    let link = Link::new(carrier, inbound.clone(), ended);
    let start = |id: u64| {
        let mut parts = Parts::default();
        parts.push(format!(r#"{{"id":{id}}}"#));
        link.start(Outbound { id, method: "ping", name: None, parts, headers: Vec::new(), session: None })
    };
    let _taken_back = start(1);
    link.cancel(1, "the caller left");
    let _sent = start(2);
    let (ours, theirs) = tokio::io::duplex(1024);
    let writing = write_loop(ours, queue, inbound);
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(theirs));
    let reading = async {
        assert_eq!(lines.next_line().await.unwrap().unwrap(), r#"{"id":2}"#);
        link.cancel(2, "the caller left");
        let told = lines.next_line().await.unwrap().unwrap();
        assert!(told.contains("notifications/cancelled") && told.contains(r#""requestId":2"#), "{told}");
    };
    tokio::select! {
        () = reading => {}
        ended = writing => panic!("{ended:?}"),
    }
}
