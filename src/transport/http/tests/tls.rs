//! TLS: a trusted server works, and each way in which a certificate or a scheme is wrong is
//! told with its cause and what to do.

use super::super::testtls::{Authority, Paper};
use super::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The outcome of a handshake with a TLS server, trusted or not by the client.
async fn tried(paper: Paper, trusted: bool) -> (Rig, Result<Established, HandshakeError>) {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server(paper, &["http/1.1"]), polite).await;
    let client = if trusted { authority.client() } else { Authority::new().client() };
    let settings = LinkSettings { http: client, ..settings(ProtocolChoice::Auto) };
    let rig = rig_to(HttpEndpoint { url: server.url(), headers: Vec::new() }, settings.clone(), server);
    let outcome = within(run(&rig.link, CarrierKind::Http, &settings, None)).await;
    (rig, outcome)
}

fn network(outcome: Result<Established, HandshakeError>) -> String {
    match outcome {
        Err(HandshakeError::Fault(LinkFault::Misfit { text, cure, detail: Some(detail), .. })) => {
            format!("{text} ({detail}); {cure}")
        }
        Err(HandshakeError::Fault(LinkFault::Unreachable { text, cure, detail })) => {
            format!("{text} ({detail}); {cure}, and it may pass")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_trusted_server_is_called_over_tls() {
    let (rig, outcome) = tried(Paper::Good, true).await;
    outcome.unwrap();
    rig.call("tools/call").await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_is_no_good_is_told_with_its_cause_and_cure() {
    let cases = [
        (Paper::Good, false, "authority that is not trusted here", "SSL_CERT_FILE"),
        (Paper::SelfSigned, true, "authority that is not trusted here", "SSL_CERT_FILE"),
        (Paper::Expired, true, "expired", "renew"),
        (Paper::Early, true, "not valid yet", "clock"),
        (Paper::OtherHost, true, "for another host", "other.example"),
    ];
    for (paper, trusted, cause, cure) in cases {
        let (rig, outcome) = tried(paper, trusted).await;
        let text = network(outcome);
        assert!(
            text.starts_with(&format!("could not connect to {}: ", rig.server.url())),
            "{paper:?}: {text}"
        );
        assert!(text.contains(cause) && text.contains(cure), "{paper:?}: {text}");
        assert!(!text.contains("may pass"), "{paper:?}: {text}");
        assert!(rig.server.seen().is_empty(), "{paper:?}: nothing is sent to a stranger");
    }
}

#[tokio::test]
async fn a_server_without_tls_behind_https_is_told_with_the_scheme_to_write() {
    // Some say what they think of it, some just leave.
    for said in ["HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", ""] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/mcp", listener.local_addr().unwrap());
        let server = Server::start(polite).await;
        let settings = LinkSettings { http: Authority::new().client(), ..settings(ProtocolChoice::Auto) };
        let rig = rig_to(HttpEndpoint { url, headers: Vec::new() }, settings.clone(), server);
        let (outcome, ()) = tokio::join!(within(run(&rig.link, CarrierKind::Http, &settings, None)), async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut hello = [0; 64];
            socket.read_exact(&mut hello).await.unwrap();
            socket.write_all(said.as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
            let _ = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
        });
        let text = network(outcome);
        assert!(text.contains("TLS") && text.contains("write http://"), "{said:?}: {text}");
        // One that leaves without a word may also be a real one in trouble.
        assert_eq!(text.contains("may pass"), said.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn a_server_with_tls_behind_http_is_told_with_the_scheme_to_write() {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server(Paper::Good, &[]), polite).await;
    let url = server.url().replace("https://", "http://");
    let rig = rig_to(HttpEndpoint { url, headers: Vec::new() }, settings(ProtocolChoice::Auto), server);
    let text =
        network(within(run(&rig.link, CarrierKind::Http, &settings(ProtocolChoice::Auto), None)).await);
    assert!(text.contains("TLS") && text.contains("https://"), "{text}");
    let fault = rig.fault("tools/call").await.fault;
    assert!(matches!(fault, ExchangeFault::Lost(LinkFault::Misfit { .. })), "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tls_handshake_that_never_ends_is_given_up_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let server = Server::start(polite).await;
    let settings = LinkSettings { http: Authority::new().client(), ..settings(ProtocolChoice::Auto) };
    let rig = rig_to(HttpEndpoint { url: url.clone(), headers: Vec::new() }, settings.clone(), server);
    let outcome = run(&rig.link, CarrierKind::Http, &settings, None).await;
    let Err(HandshakeError::Fault(LinkFault::TimedOut(text))) = outcome else { panic!("{outcome:?}") };
    assert_eq!(text, format!("no connection to {url} within 10 s"));
    drop(listener);
}
