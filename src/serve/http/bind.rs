//! Where the front listens: which addresses `--mcp-host` or `http.host` means, and what to say when one is taken.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

use super::peer;

/// Why the front can't listen.
#[derive(Debug)]
pub enum BindError {
    /// It is neither an address nor `localhost`.
    Name(String),
    /// Other machines could reach it, and that was not asked for.
    Remote(IpAddr),
    /// Other machines could reach it, and nobody would be asked who they are.
    Open(IpAddr),
    /// Somebody else listens there; who, if it is known.
    Taken(SocketAddr, Option<String>),
    /// Anything else that the system says.
    Io(SocketAddr, io::Error),
    /// The tokens can't be used.
    Tokens(crate::serve::tokens::TokenError),
}

impl BindError {
    /// What to do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::Name(_) => "use an address such as 127.0.0.1, or localhost".to_owned(),
            Self::Remote(_) => {
                "use 127.0.0.1, or add --allow-remote if other machines are to reach it".to_owned()
            }
            Self::Open(_) => "leave out --no-auth: callers then need a token".to_owned(),
            Self::Taken(..) => {
                "use another port (--mcp-port N; 0 takes a free one), or stop that program".to_owned()
            }
            Self::Io(..) => "check the address and the port".to_owned(),
            Self::Tokens(_) => "mend or remove that file".to_owned(),
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name:?} is no address to listen on"),
            Self::Remote(ip) => write!(f, "{ip} can be reached by other machines"),
            Self::Open(ip) => write!(f, "{ip} can be reached by other machines, and --no-auth lets all in"),
            Self::Taken(at, Some(who)) => write!(f, "{at} is in use by {who}"),
            Self::Taken(at, None) => write!(f, "{at} is in use by another program"),
            Self::Io(at, error) => write!(f, "can't listen on {at}: {error}"),
            Self::Tokens(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BindError {}

/// The addresses that `host` means: `localhost` is both loopbacks. No name is looked up.
///
/// # Errors
/// When it is another name, or an address that others reach and `allow_remote` is not set, or is set
/// together with `open` (nobody is asked who they are).
pub fn addresses(host: &str, allow_remote: bool, open: bool) -> Result<Vec<IpAddr>, BindError> {
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let ip: IpAddr = literal.parse().map_err(|_| BindError::Name(host.to_owned()))?;
    if ip.to_canonical().is_loopback() {
        return Ok(vec![ip]);
    }
    match (allow_remote, open) {
        (false, _) => Err(BindError::Remote(ip)),
        (true, true) => Err(BindError::Open(ip)),
        (true, false) => Ok(vec![ip]),
    }
}

/// Listens on all of them with one port; 0 takes a free one. A second address that this machine
/// does not have is left out.
///
/// # Errors
/// When one is taken, or the system refuses.
pub async fn listen(addresses: &[IpAddr], port: u16) -> Result<Vec<TcpListener>, BindError> {
    let mut port = port;
    let mut all: Vec<TcpListener> = Vec::new();
    for ip in addresses {
        let at = SocketAddr::new(*ip, port);
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => BindError::Taken(at, peer::listener(at.port())),
            _ => BindError::Io(at, error),
        };
        match TcpListener::bind(at).await {
            Ok(listener) => {
                port = listener.local_addr().map_err(refused)?.port();
                all.push(listener);
            }
            Err(error) if !all.is_empty() && is_absent(&error) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(all)
}

fn is_absent(error: &io::Error) -> bool {
    let no_family = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(no_family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_bound_unless_others_are_asked_for_and_have_to_say_who_they_are() {
        assert_eq!(addresses("LOCALHOST", false, true).unwrap().len(), 2);
        for loopback in ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"] {
            assert_eq!(addresses(loopback, false, true).unwrap().len(), 1, "{loopback}");
        }
        for remote in ["0.0.0.0", "::", "192.168.1.2", "10.0.0.1", "fe80::1"] {
            assert!(matches!(addresses(remote, false, false), Err(BindError::Remote(_))), "{remote}");
            assert!(matches!(addresses(remote, true, true), Err(BindError::Open(_))), "{remote}");
            assert!(addresses(remote, true, false).is_ok(), "{remote}");
        }
        for name in ["example.com", "localhost.", "myhost", "", "127.1", "0x7f000001", "localhost:80"] {
            assert!(matches!(addresses(name, true, false), Err(BindError::Name(_))), "{name}");
        }
    }

    #[tokio::test]
    async fn a_port_in_use_says_by_whom_and_port_0_is_one_port_for_both() {
        let both = listen(&addresses("localhost", false, false).unwrap(), 0).await.unwrap();
        let ports: Vec<u16> = both.iter().map(|l| l.local_addr().unwrap().port()).collect();
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
        let error = listen(&["127.0.0.1".parse().unwrap()], ports[0]).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        assert!(error.fix().contains("--mcp-port"));
    }
}
