//! The way to a server as the built program finds it in its environment: certificate
//! authorities (`SSL_CERT_FILE`, `SSL_CERT_DIR`) and proxies.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::cli_home::{Home, Ran};
use crate::http::Bad;

/// A company: its authority, and the certificate of a server of its own.
struct Company {
    authority: String,
    tls: TlsAcceptor,
}

impl Company {
    fn new(hosts: &[&str]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let cert = CertificateParams::new(hosts).unwrap().signed_by(&key, &authority).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], private)
            .unwrap();
        Self { authority: authority.pem(), tls: TlsAcceptor::from(Arc::new(config)) }
    }
}

/// Something on loopback that leads to the server; it ends when dropped.
struct Way {
    at: SocketAddr,
    /// The first line of each request that came to it as a proxy.
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

/// Opens a port whose connections are served by `serve`.
async fn way<F>(serve: impl Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> F + Send + 'static) -> Way
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, asked) = (listener.local_addr().unwrap(), Arc::default());
    let book = Arc::clone(&asked);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let serving = serve(socket, Arc::clone(&book));
            connections.spawn(async move {
                let _ = serving.await;
            });
        }
    });
    Way { at, asked, _tasks: tasks }
}

/// TLS before the server.
async fn tls(company: &Company, port: u16) -> Way {
    let acceptor = company.tls.clone();
    way(move |socket, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut socket = acceptor.accept(socket).await?;
            let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
            tokio::io::copy_bidirectional(&mut socket, &mut server).await.map(drop)
        }
    })
    .await
}

/// The head of a message, up to its blank line.
async fn head(socket: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A proxy that leads everything to `port`, whatever host is asked for: one request for each
/// connection, or one tunnel.
async fn proxy(port: u16) -> Way {
    way(move |mut socket, asked| async move {
        let text = head(&mut socket).await?;
        let (first, rest) = text.split_once("\r\n").unwrap_or_default();
        let login = text.lines().find(|line| line.to_ascii_lowercase().starts_with("proxy-authorization:"));
        asked.lock().unwrap().push(format!("{first} {}", login.unwrap_or_default()));
        let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
        if first.starts_with("CONNECT ") {
            socket.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
        } else {
            // As proxies do: the path alone goes on.
            let (method, place) = first.split_once(" http://").ok_or(std::io::ErrorKind::InvalidData)?;
            let (_, path) = place.split_once('/').ok_or(std::io::ErrorKind::InvalidData)?;
            let asking = format!("{method} /{path}\r\nconnection: close\r\n{rest}");
            server.write_all(asking.as_bytes()).await?;
            let length = rest.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
            socket.read_exact(&mut body).await?;
            server.write_all(&body).await?;
            let answer = head(&mut server).await?;
            let (status, rest) = answer.split_once("\r\n").unwrap_or_default();
            socket.write_all(format!("{status}\r\nconnection: close\r\n{rest}").as_bytes()).await?;
        }
        tokio::io::copy_bidirectional(&mut socket, &mut server).await.map(drop)
    })
    .await
}

/// Runs `mcp call s echo` against this URL with these variables.
async fn echo(url: &str, vars: &[(&str, &str)]) -> Ran {
    let home = Home::new();
    let entry = json!({"url": url, "trust": "trusted"});
    home.user(&json!({"mcpServers": {"s": entry}}).to_string());
    let vars: Vec<(String, String)> = vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let run = move || {
        let vars: Vec<(&str, &str)> = vars.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        home.run_env(&vars, &["mcp", "call", "s", "echo", r#"{"text":"hello"}"#, "--json"])
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// The answer of the tool, or the whole run.
fn heard(ran: &Ran) -> Result<(), String> {
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    if ran.code == 0 && answer.to_string().contains("hello") { Ok(()) } else { Err(format!("{ran:?}")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_of_the_users_own_is_taken_from_the_usual_variables() {
    let bad = Bad::start("").await;
    let company = Company::new(&["127.0.0.1"]);
    let way = tls(&company, bad.web.port).await;
    let url = format!("https://{}/mcp", way.at);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("company.pem");
    std::fs::write(&file, &company.authority).unwrap();
    let (file, folder) = (file.display().to_string(), folder.path().display().to_string());
    heard(&echo(&url, &[("SSL_CERT_FILE", &file)]).await).unwrap();
    heard(&echo(&url, &[("SSL_CERT_DIR", &folder)]).await).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_is_unknown_or_missing_is_told_with_the_cure() {
    let bad = Bad::start("").await;
    let (company, other) = (Company::new(&["127.0.0.1"]), Company::new(&["127.0.0.1"]));
    let way = tls(&company, bad.web.port).await;
    let url = format!("https://{}/mcp", way.at);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.pem");
    std::fs::write(&file, &other.authority).unwrap();
    let gone = folder.path().join("gone.pem").display().to_string();
    for (file, cause) in [
        (file.display().to_string(), "an authority that is not trusted here"),
        (gone, "no certificate authorities were found"),
    ] {
        let ran = echo(&url, &[("SSL_CERT_FILE", &file)]).await;
        assert!(heard(&ran).is_err());
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains(cause) && text.contains("SSL_CERT_FILE"), "{ran:?}");
    }
    assert_eq!(bad.count("initialize"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_lead_to_other_hosts_and_never_to_this_one() {
    let bad = Bad::start("").await;
    let proxy = proxy(bad.web.port).await;
    let at = format!("http://me:pass@{}", proxy.at);
    let asked = || std::mem::take(&mut *proxy.asked.lock().unwrap());

    heard(&echo("http://mcp.example.test/mcp", &[("HTTP_PROXY", &at)]).await).unwrap();
    let lines = asked();
    assert!(!lines.is_empty(), "the proxy was used");
    for line in lines {
        assert!(line.contains(" http://mcp.example.test/mcp HTTP/1.1 "), "{line}");
        assert!(line.contains("Basic bWU6cGFzcw=="), "the proxy gets its login: {line}");
    }
    heard(&echo("http://mcp.example.test/mcp", &[("ALL_PROXY", &at)]).await).unwrap();
    assert!(!asked().is_empty());

    for url in [bad.web.url("/mcp"), bad.web.url("/mcp").replace("127.0.0.1", "localhost")] {
        heard(&echo(&url, &[("HTTP_PROXY", &at), ("ALL_PROXY", &at)]).await).unwrap();
        assert_eq!(asked(), [""; 0], "{url}");
    }
    let ran =
        echo("http://mcp.example.test/mcp", &[("HTTP_PROXY", &at), ("NO_PROXY", ".example.test")]).await;
    assert!(heard(&ran).is_err() && asked().is_empty(), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_goes_through_a_proxy_end_to_end() {
    let bad = Bad::start("").await;
    let company = Company::new(&["mcp.example.test"]);
    let behind = tls(&company, bad.web.port).await;
    let proxy = proxy(behind.at.port()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("company.pem");
    std::fs::write(&file, &company.authority).unwrap();
    let vars = [
        ("HTTPS_PROXY", format!("http://me:pass@{}", proxy.at)),
        ("SSL_CERT_FILE", file.display().to_string()),
    ];
    let vars: Vec<_> = vars.iter().map(|(n, v)| (*n, v.as_str())).collect();
    heard(&echo("https://mcp.example.test/mcp", &vars).await).unwrap();
    for line in proxy.asked.lock().unwrap().iter() {
        assert!(line.starts_with("CONNECT mcp.example.test:443 "), "{line}");
        assert!(line.contains("Basic bWU6cGFzcw=="), "{line}");
    }
    assert!(!proxy.asked.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_is_not_there_is_told_as_such() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let socks = at.replace("http://", "socks5://");
    for (name, proxy, url, cause) in [
        ("HTTP_PROXY", &at, "http://mcp.example.test/mcp", "connection refused"),
        ("HTTPS_PROXY", &at, "https://mcp.example.test/mcp", "connection refused"),
        ("ALL_PROXY", &socks, "http://mcp.example.test/mcp", "socks5:// is not supported"),
    ] {
        let ran = echo(url, &[(name, proxy)]).await;
        assert!(heard(&ran).is_err());
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains(&format!("could not connect to {url}: ")) && text.contains("prox"), "{ran:?}");
        assert!(text.contains(cause), "{ran:?}");
    }
}
