//! Finding the id of a response at the ends of a frame that can't be parsed whole:
//! broken, or over the cap. Called when a frame fails; never the basis of a hand-over.

use super::rules::number;

/// Finds the number id of a response without reading its payload: at the head
/// (`{"jsonrpc":"2.0","id":7,`) or at the tail (`,"id":7}`, also before a last `"jsonrpc":"2.0"`).
/// A hint to attribute a broken or oversize frame, never a proof. White space between the
/// tokens is fine; an id in quotes counts; a number beyond u64 does not. `None` when a `method`
/// shows at the head: a request's id is the peer's.
pub fn id_hint(head: &[u8], tail: &[u8]) -> Option<u64> {
    match at_head(head) {
        Head::Id(id) => Some(id),
        Head::Request => None,
        Head::Unknown => at_tail(tail),
    }
}

enum Head {
    Id(u64),
    Request,
    Unknown,
}

/// Reads the first members as long as their values are short.
fn at_head(head: &[u8]) -> Head {
    let mut rest = head.trim_ascii_start();
    let mut id = None;
    let mut before = b"{";
    while let Some(after) = token(rest, before) {
        before = b",";
        let Some((key, after)) = quoted(after) else { break };
        if key == b"method" {
            return Head::Request;
        }
        let Some(after) = token(after, b":") else { break };
        let Some((value, after)) = short_value(after) else { break };
        match key {
            // A value that is cut off, or goes on otherwise (`7e1`), tells nothing.
            b"id" if !matches!(after.trim_ascii_start().first(), Some(b',' | b'}')) => break,
            b"id" => id = number(value),
            b"jsonrpc" => {}
            _ => break,
        }
        rest = after;
    }
    id.map_or(Head::Unknown, Head::Id)
}

/// Only a member of the top level can stand right before the last bracket.
fn at_tail(tail: &[u8]) -> Option<u64> {
    let mut rest = tail.trim_ascii_end().strip_suffix(b"}")?;
    for _ in 0..2 {
        let (key, value, before) = last_member(rest)?;
        match key {
            b"id" => return number(value),
            b"jsonrpc" => rest = before,
            _ => return None,
        }
    }
    None
}

/// The last `,"key":value` of `text`, the value being short, and what stands before it.
fn last_member(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let value_from = match text.strip_suffix(b"\"") {
        Some(inner) => memchr::memrchr(b'"', inner)?,
        None => text.iter().rposition(|b| !b.is_ascii_digit() && *b != b'.').map_or(0, |at| at + 1),
    };
    let (before, value) = text.split_at(value_from);
    let before = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end().strip_suffix(b"\"")?;
    let key_from = memchr::memrchr(b'"', before)?;
    let key = &before[key_from + 1..];
    let before = before[..key_from].trim_ascii_end().strip_suffix(b",")?;
    Some((key, value, before))
}

fn token<'a>(text: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    Some(text.trim_ascii_start().strip_prefix(token)?.trim_ascii_start())
}

/// A string without escapes: its text, and what follows.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', text)?;
    (text[end] == b'"').then(|| (&text[..end], &text[end + 1..]))
}

/// A number or a string without escapes, as it is written, and what follows.
fn short_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = match quoted(text) {
        Some((inner, _)) => inner.len() + 2,
        None => text.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(text.len()),
    };
    (end > 0).then(|| text.split_at(end))
}
