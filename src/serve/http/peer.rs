//! Whose process is at the other end of a loopback connection, by the kernel's own table
//! (`/proc/net/tcp`, `/proc/net/tcp6`); and who holds a port that we wanted. Blocking; called once
//! for each connection.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State of a listening socket in the table.
const LISTEN: &str = "0A";

/// The user at the other end of the connection between `peer` and `own`; `None` when the kernel
/// does not say, or one of them is not loopback.
pub fn uid(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let plain = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let (peer, own) = (plain(peer), plain(own));
    if !peer.ip().is_loopback() || !own.ip().is_loopback() {
        return None;
    }
    tables()
        .find_map(|table| {
            table.lines().skip(1).filter_map(Row::parse).find(|row| row.local == peer && row.remote == own)
        })
        .map(|row| row.uid)
}

/// Name and number of the process that listens on the port, as far as we may know it.
pub fn listener(port: u16) -> Option<String> {
    let inodes: Vec<String> = tables()
        .flat_map(|table| table.lines().skip(1).filter_map(Row::parse).collect::<Vec<_>>())
        .filter(|row| row.listens && row.local.port() == port)
        .map(|row| format!("socket:[{}]", row.inode))
        .collect();
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let mut links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        if links.any(|link| inodes.iter().any(|inode| link.as_os_str() == inode.as_str())) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            return Some(format!("{} (process {pid})", name.trim()));
        }
    }
    None
}

fn tables() -> impl Iterator<Item = String> {
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| fs::read_to_string(path).ok())
}

struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    listens: bool,
    uid: u32,
    inode: u64,
}

impl Row {
    /// `sl local remote state queues timer retransmits uid timeout inode …`
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (local, remote) = (fields.nth(1)?, fields.next()?);
        let state = fields.next()?;
        let uid = fields.nth(3)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Self { local: address(local)?, remote: address(remote)?, listens: state == LISTEN, uid, inode })
    }
}

/// `0100007F:22E3`: words of the address in the machine's order, the port in plain hex.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(words.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match words.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, slot) in bytes.chunks_exact_mut(4).enumerate() {
                slot.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_says_whose_a_connection_is_and_who_holds_a_port() {
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(bind) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let own = server.local_addr().unwrap();
            assert_eq!(uid(peer, own), Some(rustix::process::geteuid().as_raw()), "{bind}");
            assert_eq!(uid(SocketAddr::new(peer.ip(), 1), own), None);
            assert_eq!(uid("192.0.2.1:5".parse().unwrap(), own), None);
            let holder = super::listener(own.port()).unwrap();
            assert!(holder.contains(&format!("process {}", std::process::id())), "{holder}");
            drop(client);
        }
    }

    #[test]
    fn addresses_of_the_table_are_read_in_both_families() {
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:22E3"), Some("127.0.0.1:8931".parse().unwrap()));
            assert_eq!(address("00000000000000000000000001000000:0050"), Some("[::1]:80".parse().unwrap()));
            assert_eq!(
                address("0000000000000000FFFF00000100007F:0050"),
                Some("127.0.0.1:80".parse().unwrap())
            );
        }
        for bad in ["", "0100007F", "01:0050", "0100007G:0050", "0100007F:FFFFF"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }
}
