//! The fetcher over real sockets, in a network where every address is this machine and hears every
//! contact: `.ci/long network` makes one. Anywhere else these tests would contact strangers, so there
//! they say nothing. The kernel counts how often a connection was begun at all.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rustls::RootCertStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::dial::Network;
use super::tests::{forbidden, get};
use super::*;
use crate::policy::net::tests::PUBLIC;
use crate::transport::task::{self, Owned};

/// Set by `.ci/long network`.
const OWN_NETWORK: &str = "CALLBOARD_OWN_NETWORK";
/// Requests to a name that changes its mind.
const FLIPS: usize = 10_000;

/// Every port that the fetcher may use, on every address: whom was contacted, and what was asked.
struct Everybody {
    contacts: Arc<Mutex<Vec<IpAddr>>>,
    _serving: Vec<Owned>,
}

impl Everybody {
    async fn listen() -> Self {
        let contacts = Arc::new(Mutex::new(Vec::new()));
        let mut serving = Vec::new();
        for port in PORTS {
            // With IPv4 as well, mapped.
            let listener = TcpListener::bind(("::", port)).await.unwrap();
            let book = contacts.clone();
            serving.push(task::spawn(async move {
                while let Ok((socket, _)) = listener.accept().await {
                    book.lock().unwrap().push(socket.local_addr().unwrap().ip().to_canonical());
                    task::spawn(answer(socket)).detach();
                }
            }));
        }
        Self { contacts, _serving: serving }
    }

    fn heard(&self) -> Vec<IpAddr> {
        std::mem::take(&mut *self.contacts.lock().unwrap())
    }
}

/// `/to?URL` redirects to the URL; everything else is there.
async fn answer(mut socket: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = socket.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let to = head.strip_prefix("GET /to?").and_then(|rest| rest.split(' ').next());
    let text = match to.map(|to| url::form_urlencoded::parse(to.as_bytes()).next()) {
        Some(Some((url, _))) => {
            format!("HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n")
        }
        _ => "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok".to_owned(),
    };
    let _ = socket.write_all(text.as_bytes()).await;
    let _ = socket.shutdown().await;
}

/// Names that stand for these addresses, answer by answer; the last answer stays.
#[derive(Default)]
struct Names(Mutex<Vec<Vec<IpAddr>>>);

impl Resolver for Names {
    fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(async move { Ok(answer) })
    }
}

async fn fetch(url: &str, names: &[&[IpAddr]]) -> Result<Fetched, FetchError> {
    let tls = crate::transport::http::client::tls().unwrap();
    let tls = tls.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let names = Names(Mutex::new(names.iter().map(|list| list.to_vec()).collect()));
    Fetcher::over(Arc::new(names), Arc::new(Network), tls).fetch(get(url)).await
}

/// How many connections were begun in this network, whoever heard of them.
fn begun() -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp: ")).map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let found = names.zip(values).find(|(name, _)| *name == "ActiveOpens").unwrap();
    found.1.parse().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a run by hand says where it is")]
fn is_own() -> bool {
    let own = std::env::var_os(OWN_NETWORK).is_some();
    let more = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let devices = more.lines().filter(|line| line.contains(':')).count();
    assert!(!own || devices == 1, "this network has more than itself: {more}");
    own
}

fn to(url: &str) -> String {
    let query: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
    format!("http://1.1.1.1/to?{query}")
}

#[tokio::test]
async fn in_a_network_of_its_own_no_special_address_hears_from_the_fetcher() {
    if !is_own() {
        return;
    }
    let everybody = Everybody::listen().await;
    let first = begun();
    let (mut cases, mut redirects) = (0, 0);
    let public: IpAddr = [1, 1, 1, 1].into();
    for (address, spellings) in forbidden() {
        for spelled in &spellings {
            let direct = fetch(&format!("http://{spelled}/"), &[]).await;
            assert!(matches!(direct, Err(FetchError::Refused(_))), "{spelled}: {direct:?}");
            let moved = fetch(&to(&format!("http://{spelled}/")), &[]).await;
            assert!(matches!(moved, Err(FetchError::Refused(_))), "to {spelled}: {moved:?}");
            for port in PORTS {
                let answer = [public, address.parse().unwrap()];
                let named = fetch(&format!("http://x.example:{port}/"), &[&answer]).await;
                assert!(matches!(named, Err(FetchError::Refused(_))), "{address}");
            }
            (cases, redirects) = (cases + 2 + PORTS.len(), redirects + 1);
        }
        let address: IpAddr = address.parse().unwrap();
        let flips = fetch(&to("http://flips.example/"), &[&[address]]).await;
        assert!(matches!(flips, Err(FetchError::Refused(_))), "{address}: {flips:?}");
        (cases, redirects) = (cases + 1, redirects + 1);
    }
    let heard = everybody.heard();
    assert!(heard.iter().all(|address| *address == public), "{heard:?}");
    assert_eq!(
        (heard.len() as u64, begun() - first),
        (redirects, redirects),
        "and nothing was begun unheard"
    );
    assert_eq!(cases, 48 * 12 * (2 + PORTS.len()) + 48);

    // This network would have told: every public control is heard, and so is a special address.
    for address in PUBLIC {
        let address: IpAddr = address.parse().unwrap();
        let host = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
        assert!(fetch(&format!("http://{host}/"), &[]).await.is_ok(), "{address}");
        assert!(fetch("http://x.example/", &[&[address]]).await.is_ok(), "{address}");
        assert_eq!(everybody.heard(), [address; 2]);
    }
    for address in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.255.255", "fd00:ec2::254", "::1"] {
        let address: IpAddr = address.parse().unwrap();
        let mut socket = TcpStream::connect(SocketAddr::new(address, 80)).await.unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        socket.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(everybody.heard(), [address]);
    }
}

#[tokio::test]
async fn in_a_network_of_its_own_a_name_that_changes_its_mind_leads_nowhere_special() {
    if !is_own() {
        return;
    }
    let everybody = Everybody::listen().await;
    let public: IpAddr = [8, 8, 8, 8].into();
    let mut fetched = 0;
    for round in 0..FLIPS {
        let inside: IpAddr =
            ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1"][round / 2 % 4].parse().unwrap();
        let answers = if round % 2 == 0 { [public, inside] } else { [inside, public] };
        let outcome = fetch("http://flips.example/", &[&answers[..1], &answers[1..]]).await;
        assert_eq!(outcome.is_ok(), round % 2 == 0, "{round}: {outcome:?}");
        fetched += usize::from(outcome.is_ok());
    }
    let heard = everybody.heard();
    assert!(heard.iter().all(|address| *address == public), "a special address was contacted");
    assert_eq!((heard.len(), fetched), (FLIPS / 2, FLIPS / 2));
}
