//! The tools of the web over a network of our own: what a page or a service says becomes fields, and
//! nothing but public hosts and the one configured place is contacted.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rustls::RootCertStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::transport::http::fetch::{Dialer, Resolver, Stream};
use crate::transport::task;

/// One answer for whoever connects; whom, and what was asked.
#[derive(Default)]
struct World {
    answer: String,
    contacts: Mutex<Vec<SocketAddr>>,
    asked: Arc<Mutex<String>>,
}

impl Resolver for World {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let address = if name.ends_with("example") { [10, 0, 0, 1] } else { [93, 184, 216, 34] };
        Box::pin(async move { Ok(vec![address.into()]) })
    }
}

impl Dialer for World {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        self.contacts.lock().unwrap().push(to);
        let (answer, asked) = (self.answer.clone(), self.asked.clone());
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        task::spawn(async move {
            let mut heard = vec![0; 4096];
            let len = theirs.read(&mut heard).await.unwrap_or_default();
            *asked.lock().unwrap() = String::from_utf8_lossy(&heard[..len]).into_owned();
            let _ = theirs.write_all(answer.as_bytes()).await;
            let _ = theirs.shutdown().await;
        })
        .detach();
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Stream>) })
    }
}

fn world(media: &str, body: &str) -> (Arc<World>, Fetcher) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n", body.len());
    let world = Arc::new(World { answer: head + body, ..World::default() });
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    (world.clone(), Fetcher::over(world.clone(), world, tls))
}

fn searching(provider: SearchProvider, key: Option<&str>) -> Search {
    let url = Some(Url::parse("http://127.0.0.1:8888/base/").unwrap());
    Search { provider, url, key: key.map(SecretText::new), lacks: None }
}

#[tokio::test]
async fn a_title_comes_from_public_hosts_only() {
    let (world, fetcher) = world("text/html; charset=utf-8", "<title>Fish &amp; Chips</title>");
    let got = title(&fetcher, &json!({"url": "http://public.test/a#b"})).await.unwrap().structured;
    assert_eq!(got, json!({"title": "Fish & Chips", "url": "http://public.test/a", "status": 200}));
    let before = world.contacts.lock().unwrap().len();
    for url in
        ["http://127.0.0.1/", "http://private.example/", "http://localhost/", "file:///etc/passwd", "x"]
    {
        assert!(title(&fetcher, &json!({"url": url})).await.is_err(), "{url}");
    }
    assert_eq!(world.contacts.lock().unwrap().len(), before);
    let (_, fetcher) = self::world("application/pdf", "%PDF");
    assert!(
        title(&fetcher, &json!({"url": "http://public.test/"}))
            .await
            .unwrap_err()
            .contains("application/pdf")
    );
}

#[tokio::test]
async fn results_of_every_provider_have_one_form() {
    let list = r#"{"results":[{"title":"A <b>","url":"https://a.test/","content":"x <i>y</i>","text":"x"},
        {"title":"no web","url":"javascript:alert(1)"},{"title":"B","url":"https://b.test/"}]}"#;
    for (provider, wanted) in [
        (SearchProvider::SearXng, "GET /base/search?q=two+words&format=json HTTP/1.1"),
        (SearchProvider::Tavily, "\"query\":\"two words\""),
        (SearchProvider::Exa, "x-api-key: k-123"),
    ] {
        let (world, fetcher) = world("application/json", list);
        let search_at = searching(provider, Some("k-123"));
        let got = search(&fetcher, &search_at, &json!({"query": "two words"})).await.unwrap().structured;
        assert_eq!(got["results"][0]["url"], "https://a.test/", "{provider:?}");
        assert_eq!(got["results"].as_array().unwrap().len(), 2, "{provider:?}");
        assert_eq!(got["results"][1]["snippet"], "");
        let asked = world.asked.lock().unwrap().clone();
        assert!(asked.contains(wanted), "{provider:?}: {asked}");
        assert!(!format!("{got} {search_at:?}").contains("k-123"));
    }
    let page = r#"<a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.test%2F%3Fx%3D1&amp;rut=1">A <b>title</b></a>
        <a class="result__snippet" href="x">An <b>extract</b></a>"#;
    let (_, fetcher) = world("text/html", page);
    let search_at = searching(SearchProvider::DuckDuckGo, None);
    let got = search(&fetcher, &search_at, &json!({"query": "q", "count": 1})).await.unwrap().structured;
    let wanted = json!([{"title": "A title", "url": "https://a.test/?x=1", "snippet": "An extract"}]);
    assert_eq!(got["results"], wanted);
}

#[tokio::test]
async fn a_configured_place_may_be_private_and_what_it_redirects_to_may_not() {
    let (world, fetcher) = world("application/json", r#"{"results":[]}"#);
    let search_at = searching(SearchProvider::SearXng, None);
    assert!(search(&fetcher, &search_at, &json!({"query": "q"})).await.is_ok());
    assert_eq!(world.contacts.lock().unwrap()[0], "127.0.0.1:8888".parse().unwrap());
    let leads = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9999/\r\nContent-Length: 0\r\n\r\n";
    let world = Arc::new(World { answer: leads.into(), ..World::default() });
    let (_, other) = self::world("text/html", "");
    drop(other);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let fetcher = Fetcher::over(world.clone(), world.clone(), tls);
    assert!(search(&fetcher, &search_at, &json!({"query": "q"})).await.is_err());
    assert_eq!(world.contacts.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_search_that_is_not_set_up_says_what_is_missing() {
    let (_, fetcher) = world("application/json", "{}");
    let search_at = Search { lacks: Some("set the key"), ..searching(SearchProvider::Exa, None) };
    assert!(search(&fetcher, &search_at, &json!({"query": "q"})).await.unwrap_err().contains("set the key"));
    assert!(search(&fetcher, &search_at, &json!({})).await.unwrap_err().contains("query"));
}
