//! The fetcher over a network of our own: a resolver that lies, a dialer that writes down whom it
//! was asked to contact, and a server that answers what a test says.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rustls::RootCertStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::policy::net::special;
use crate::policy::net::tests::{FORBIDDEN_V4, FORBIDDEN_V6, PUBLIC, spellings_v4, spellings_v6};
use crate::transport::task;

const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";

/// A network: what names stand for, answer by answer (the last one stays), what is answered, and
/// what was seen.
#[derive(Default)]
struct World {
    names: Mutex<VecDeque<Vec<IpAddr>>>,
    answers: Mutex<VecDeque<String>>,
    contacts: Mutex<Vec<SocketAddr>>,
    requests: Arc<Mutex<Vec<String>>>,
    lookups: Mutex<usize>,
}

impl Resolver for World {
    fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        *self.lookups.lock().unwrap() += 1;
        let mut names = self.names.lock().unwrap();
        let next = names.pop_front().unwrap_or_default();
        if names.is_empty() {
            names.push_back(next.clone());
        }
        Box::pin(async move { Ok(next) })
    }
}

impl Dialer for World {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        self.contacts.lock().unwrap().push(to);
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_else(|| PLAIN.to_owned());
        let requests = self.requests.clone();
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        task::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = theirs.read_u8().await else { return };
                head.push(byte);
            }
            requests.lock().unwrap().push(String::from_utf8_lossy(&head).to_ascii_lowercase());
            let _ = theirs.write_all(answer.as_bytes()).await;
            let _ = theirs.shutdown().await;
        })
        .detach();
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Stream>) })
    }
}

struct Net(Arc<World>, Fetcher);

impl Net {
    fn new() -> Self {
        let world = Arc::new(World::default());
        let tls = crate::transport::http::client::tls().unwrap();
        let tls = tls.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        Self(world.clone(), Fetcher::over(world.clone(), world, tls))
    }

    fn names(self, answers: &[&[&str]]) -> Self {
        let parsed = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        *self.0.names.lock().unwrap() = answers.iter().map(parsed).collect();
        self
    }

    fn answers(self, answers: &[String]) -> Self {
        *self.0.answers.lock().unwrap() = answers.iter().cloned().collect();
        self
    }

    async fn get(&self, url: &str) -> Result<Fetched, FetchError> {
        self.1.fetch(get(url)).await
    }

    fn contacts(&self) -> Vec<IpAddr> {
        self.0.contacts.lock().unwrap().iter().map(SocketAddr::ip).collect()
    }
}

pub(super) fn get(url: &str) -> Fetch {
    let (url, headers) = (Url::parse(url).unwrap(), HeaderMap::new());
    Fetch { url, method: Method::GET, headers, body: String::new(), accept: &["text/*", "application/json"] }
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

pub(super) fn forbidden() -> Vec<(&'static str, Vec<String>)> {
    let v4 = FORBIDDEN_V4.iter().map(|address| (*address, spellings_v4(address)));
    v4.chain(FORBIDDEN_V6.iter().map(|address| (*address, spellings_v6(address)))).collect()
}

#[tokio::test(start_paused = true)]
async fn no_special_address_is_contacted_in_any_spelling_by_any_way() {
    let mut cases = 0;
    for (address, spellings) in forbidden() {
        for spelled in &spellings {
            let direct = Net::new();
            let refused = direct.get(&format!("http://{spelled}/")).await;
            assert!(matches!(refused, Err(FetchError::Refused(_))), "{spelled}: {refused:?}");
            assert_eq!(direct.contacts(), Vec::<IpAddr>::new(), "{spelled}");

            let moved = Net::new().answers(&[redirect(&format!("http://{spelled}/x"))]);
            let refused = moved.get("http://1.1.1.1/").await;
            assert!(matches!(refused, Err(FetchError::Refused(_))), "to {spelled}: {refused:?}");
            assert_eq!(moved.contacts(), [IpAddr::from([1, 1, 1, 1])], "to {spelled}");
            cases += 2;
        }
        // A name, and one that stands for another: what counts is the addresses at the end of it.
        let mapped = match address.parse::<IpAddr>().unwrap() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_string(),
            IpAddr::V6(v6) => v6.to_string(),
        };
        for answer in [
            &[address][..],
            &[mapped.as_str()],
            &["1.1.1.1", address],
            &[address, "1.1.1.1"],
            &["2606:4700::1", "1.1.1.1", mapped.as_str()],
        ] {
            let named = Net::new().names(&[answer]);
            let refused = named.get("https://innocent.example/").await;
            assert!(matches!(refused, Err(FetchError::Refused(_))), "{answer:?}: {refused:?}");
            assert_eq!(named.contacts(), Vec::<IpAddr>::new(), "{answer:?}");
            cases += 1;
        }
        // A name that changes its mind between two requests, and between vetting and connecting.
        let flips = Net::new().names(&[&["1.1.1.1"], &[address]]).answers(&[redirect("/again")]);
        let refused = flips.get("http://flips.example/").await;
        assert!(matches!(refused, Err(FetchError::Refused(_))), "{address}: {refused:?}");
        assert_eq!(flips.contacts(), [IpAddr::from([1, 1, 1, 1])], "{address}");
        let once = Net::new().names(&[&["1.1.1.1"], &[address]]);
        assert!(once.get("http://flips.example/").await.is_ok());
        assert_eq!((once.contacts(), *once.0.lookups.lock().unwrap()), (vec![[1, 1, 1, 1].into()], 1));
        cases += 2;
    }
    assert_eq!(cases, 48 * (12 * 2 + 5 + 2));
}

#[tokio::test(start_paused = true)]
async fn public_hosts_are_fetched() {
    for address in PUBLIC {
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let net = Net::new().names(&[&[address]]);
        for url in [format!("http://{host}/"), "http://name.example/".to_owned()] {
            let fetched = net.get(&url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!((fetched.status, &fetched.body[..], &*fetched.media), (200, &b"ok"[..], "text/plain"));
        }
        assert_eq!(net.contacts(), [address.parse::<IpAddr>().unwrap(); 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_flips_of_a_name_lead_to_no_special_address() {
    let net = Net::new();
    for round in 0..10_000_usize {
        let inside = ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1"][round / 2 % 4];
        let next = if round % 2 == 0 { "8.8.8.8" } else { inside };
        *net.0.names.lock().unwrap() =
            VecDeque::from([vec![next.parse().unwrap()], vec![inside.parse().unwrap()]]);
        assert_eq!(net.get("http://flips.example/").await.is_ok(), round % 2 == 0);
    }
    let contacts = net.contacts();
    assert_eq!(contacts.len(), 5_000);
    assert!(contacts.iter().all(|address| special(*address).is_none()));
}

#[tokio::test(start_paused = true)]
async fn credentials_go_to_their_origin_alone_and_a_redirect_is_bounded() {
    let mut wanted = get("http://1.1.1.1/a?q=1");
    wanted.headers.insert("authorization", HeaderValue::from_static("Bearer canary"));
    wanted.headers.insert("x-api-key", HeaderValue::from_static("canary"));
    let net =
        Net::new().answers(&[redirect("/b"), redirect("http://8.8.8.8/c"), redirect("http://1.1.1.1/d")]);
    let fetched = net.1.fetch(wanted.clone()).await.unwrap();
    assert_eq!(fetched.url.as_str(), "http://1.1.1.1/d");
    let seen = net.0.requests.lock().unwrap().clone();
    let carried: Vec<bool> = seen.iter().map(|request| request.contains("canary")).collect();
    assert_eq!(carried, [true, true, false, false], "{seen:?}");
    assert!(
        seen[0].starts_with("get /a?q=1 http/1.1\r\n") && seen[0].contains("host: 1.1.1.1\r\n"),
        "{seen:?}"
    );
    assert!(seen.iter().all(|request| request.contains("accept-encoding: identity")));

    let round = Net::new().answers(&vec![redirect("/again"); 9]);
    assert!(matches!(round.get("http://1.1.1.1/").await, Err(FetchError::Redirect(_))));
    assert_eq!(round.contacts().len(), HOPS_MAX + 1);

    let post = |status: u16, to: &str| {
        let moved = format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        let mut wanted = wanted.clone();
        wanted.method = Method::POST;
        wanted.body = "secret=canary".to_owned();
        (Net::new().answers(&[moved]), wanted)
    };
    let (net, wanted) = post(307, "http://8.8.8.8/");
    assert!(
        matches!(net.1.fetch(wanted).await, Err(FetchError::Redirect(_))),
        "a body goes to its origin alone"
    );
    let (net, wanted) = post(303, "http://8.8.8.8/");
    net.1.fetch(wanted).await.unwrap();
    let seen = net.0.requests.lock().unwrap().clone();
    assert!(seen[1].starts_with("get / ") && !seen[1].contains("canary"), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_too_slow_or_of_another_kind_is_refused() {
    let of = |head: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
    let large = "x".repeat(BODY_BYTES_MAX + 1);
    let net = |answer: String| Net::new().answers(&[answer]);
    let get = async |answer: String| net(answer).get("http://1.1.1.1/").await;
    assert!(matches!(get(of("Content-Type: text/html", &large)).await, Err(FetchError::TooLarge)));
    let most = get(of("Content-Type: text/html; charset=x", &large[1..])).await.unwrap();
    assert_eq!((most.body.len(), &*most.media), (BODY_BYTES_MAX, "text/html"));
    for head in [
        "Content-Type: text/html\r\nContent-Encoding: gzip",
        "Content-Type: application/octet-stream",
        "X: y",
    ] {
        assert!(matches!(get(of(head, "x")).await, Err(FetchError::Content(_))), "{head}");
    }
    // An answer that never ends, on a clock that does not wait.
    let endless = of("Content-Type: text/html\r\nContent-Length: 9", "x");
    assert!(matches!(get(endless).await, Err(FetchError::Network(_))));
    let silent = Net::new();
    let silence = Fetcher { resolver: Arc::new(Silent), ..silent.1 };
    let began = crate::time::Monotonic::now();
    assert!(matches!(silence.fetch(super::tests::get("http://x.example/")).await, Err(FetchError::TooSlow)));
    assert_eq!(crate::time::Monotonic::now().since(began), TIME_MAX);
    let down = Net::new().answers(&[redirect("http://1.1.1.1/")]);
    let https = redirected(
        super::tests::get("https://1.1.1.1/"),
        StatusCode::FOUND,
        Some(&HeaderValue::from_static("http://1.1.1.1/")),
    );
    assert!(matches!(https, Err(FetchError::Redirect(_))), "{:?}", down.contacts());
}

struct Silent;

impl Resolver for Silent {
    fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::pending())
    }
}
