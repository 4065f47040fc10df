//! `tools/list` and its kin: pages cut from the snapshot, each definition as its server sent it under
//! its exposed name. A cursor names the last entry of a page, so a list that changes meanwhile repeats and
//! loses nothing of what stays.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

use super::client::Client;
use super::message::{Request, RpcError};
use super::sink::{Outgoing, Sink};
use super::view::{Row, View};
use crate::catalog::definition;
use crate::catalog::items::ListKind;
use crate::wire::era::Era;
use crate::wire::splice::Parts;

/// Entries of one page: many clients read the first page only.
pub const PAGE_ITEMS_MAX: usize = 1000;
/// Bytes of one page; the entry that passes it is its last one.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Answers a list request. The first ones of a client wait a moment for servers that are on
/// their way, and longer while none has told anything.
pub(super) fn list(client: &Arc<Client>, kind: ListKind, request: Request, to: &Sink) {
    let me = client.clone();
    client.run(request.id.clone(), to, async move {
        me.settled_view().await;
        let view = me.view_with(View::has_any).await;
        Some(match page(&me, &view, kind, &request) {
            Ok(parts) => Outgoing::Answer(parts),
            Err(error) => error.answer(&request.id),
        })
    });
}

fn page(client: &Client, view: &View, kind: ListKind, request: &Request) -> Result<Parts, RpcError> {
    let after = match request.param("cursor") {
        None => None,
        Some(raw) => {
            let cursor = crate::wire::envelope::text(&raw).and_then(|text| Cursor::read(kind, &text));
            Some(cursor.ok_or_else(|| RpcError::params("`params.cursor` is none of ours"))?)
        }
    };
    let rows: Vec<Row<'_>> = view.rows(kind, client.who()).collect();
    let from = after.map_or(0, |cursor| cursor.position(&rows));
    if from == 0 {
        client.state().seen[kind as usize] = Some(view.mark(kind, client.who()));
    }
    let mut parts = Parts::default();
    let extras = match client.era() {
        Era::Modern => r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#,
        Era::Legacy => "",
    };
    parts.push([br#"{"jsonrpc":"2.0","id":"#, &request.id[..], br#","result":{"#].concat());
    parts.push(format!(r#"{extras}"{}":["#, kind.result_key()));
    let (mut bytes, mut to) = (0, from);
    for row in rows[from..].iter().take(PAGE_ITEMS_MAX) {
        if to > from {
            parts.push(Bytes::from_static(b","));
        }
        definition::write(row.item, row.name).pieces().iter().for_each(|piece| parts.push(piece.clone()));
        to += 1;
        bytes += row.item.raw.len();
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
    }
    let more = rows.len() > to;
    let next = rows[..to].last().filter(|_| more).map(|last| Cursor::after(kind, last, &rows[..to]).write());
    parts.push(match next {
        Some(next) => format!(r#"],"nextCursor":"{next}"}}}}"#),
        None => "]}}".to_owned(),
    });
    Ok(parts)
}

/// The place behind an entry.
#[derive(Debug, PartialEq, Eq)]
struct Cursor {
    kind: ListKind,
    server: String,
    raw: String,
    /// Its place among the entries of its server, for when it is gone.
    index: usize,
}

impl Cursor {
    fn after(kind: ListKind, last: &Row<'_>, until: &[Row<'_>]) -> Self {
        let index = until.iter().rev().take_while(|row| row.server == last.server).count();
        Self { kind, server: last.server.as_str().to_owned(), raw: last.item.name.clone(), index }
    }

    fn write(&self) -> String {
        let fields = serde_json::json!([self.kind as u8, self.server, self.raw, self.index]);
        URL_SAFE_NO_PAD.encode(fields.to_string())
    }

    fn read(kind: ListKind, text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (of, server, raw, index): (u8, String, String, usize) = serde_json::from_slice(&bytes).ok()?;
        (of == kind as u8).then_some(Self { kind, server, raw, index })
    }

    /// Where the next page begins.
    fn position(&self, rows: &[Row<'_>]) -> usize {
        let own = |row: &Row<'_>| row.server.as_str() == self.server;
        if let Some(at) = rows.iter().position(|row| own(row) && row.item.name == self.raw) {
            return at + 1;
        }
        let begin = rows.iter().position(|row| row.server.as_str() >= self.server.as_str());
        let begin = begin.unwrap_or(rows.len());
        let of_server = rows[begin..].iter().take_while(|row| own(row)).count();
        begin + of_server.min(self.index.saturating_sub(1))
    }
}
