//! How the end of a call counts for the breaker: one table, and the ways into it. What the
//! server says inside the protocol is a sign of life, however bad the news; what breaks the
//! connection or the protocol is a failure; what was decided here says nothing about it.
//! Called where an outcome is put into words.

use crate::call::BreakerClass;

/// The ends that a call, or an attempt to connect, can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// The process could not be started or reached, or did not finish its handshake.
    ConnectFailed,
    /// The connection ended while the call ran: exit, end of file, reset, a pipe without reader.
    ConnectionLost,
    /// No answer within a limit, and no other sign of life.
    Silent,
    /// No answer within a limit, while the server lives.
    Slow,
    /// HTTP 5xx or 408.
    ServerStatus,
    /// Another HTTP status without an answer in it.
    OtherStatus,
    /// HTTP 429, or 503 with a time to wait.
    Throttled,
    /// HTTP 401 or 403.
    WantsCredentials,
    /// The session is over and could not be renewed.
    SessionLost,
    /// An answer to our id that breaks JSON or JSON-RPC.
    Malformed,
    /// An answer over the cap; the stream goes on.
    TooLarge,
    /// A JSON-RPC error.
    RpcError,
    /// A JSON-RPC error about our headers, capabilities or revision (−32020 to −32022).
    OurMistake,
    /// A result with `isError: true`.
    ToolError,
    /// Any other result, `input_required` too.
    Answered,
    /// The caller left.
    Abandoned,
    /// Refused here: never sent.
    Refused,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The end.
    pub ending: Ending,
    /// How it counts.
    pub class: BreakerClass,
    /// The same where `breaker.count_tool_errors` is on.
    pub counting_tool_errors: BreakerClass,
}

const fn row(ending: Ending, class: BreakerClass) -> Row {
    Row { ending, class, counting_tool_errors: class }
}

const fn of_the_tool(ending: Ending) -> Row {
    Row { ending, class: BreakerClass::Heal, counting_tool_errors: BreakerClass::Trip }
}

/// The table (spec section 4).
pub const TABLE: [Row; 17] = {
    use BreakerClass::{Exhausted, Heal, Neutral, Trip};
    [
        row(Ending::ConnectFailed, Trip),
        row(Ending::ConnectionLost, Trip),
        row(Ending::Silent, Trip),
        row(Ending::Slow, Neutral),
        row(Ending::ServerStatus, Trip),
        row(Ending::OtherStatus, Neutral),
        row(Ending::Throttled, Exhausted),
        row(Ending::WantsCredentials, Neutral),
        row(Ending::SessionLost, Neutral),
        row(Ending::Malformed, Trip),
        row(Ending::TooLarge, Neutral),
        of_the_tool(Ending::RpcError),
        row(Ending::OurMistake, Heal),
        of_the_tool(Ending::ToolError),
        row(Ending::Answered, Heal),
        row(Ending::Abandoned, Neutral),
        row(Ending::Refused, Neutral),
    ]
};

impl Ending {
    /// The end that an HTTP status without a JSON-RPC answer is. 401, 403 and a status with a time
    /// to wait are told apart before.
    pub fn of_status(status: u16) -> Self {
        match status {
            408 | 500..=599 => Self::ServerStatus,
            429 => Self::Throttled,
            401 | 403 => Self::WantsCredentials,
            _ => Self::OtherStatus,
        }
    }

    /// The end that a JSON-RPC error is.
    pub fn of_rpc_code(code: i64) -> Self {
        if (-32022..=-32020).contains(&code) { Self::OurMistake } else { Self::RpcError }
    }

    /// How it counts.
    pub fn class(self, count_tool_errors: bool) -> BreakerClass {
        let row = TABLE.iter().find(|row| row.ending == self);
        row.map_or(BreakerClass::Neutral, |row| {
            if count_tool_errors { row.counting_tool_errors } else { row.class }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as people read it, written out a second time.
    const WANTED: &str = "
        ConnectFailed Trip Trip
        ConnectionLost Trip Trip
        Silent Trip Trip
        Slow Neutral Neutral
        ServerStatus Trip Trip
        OtherStatus Neutral Neutral
        Throttled Exhausted Exhausted
        WantsCredentials Neutral Neutral
        SessionLost Neutral Neutral
        Malformed Trip Trip
        TooLarge Neutral Neutral
        RpcError Heal Trip
        OurMistake Heal Heal
        ToolError Heal Trip
        Answered Heal Heal
        Abandoned Neutral Neutral
        Refused Neutral Neutral";

    #[test]
    fn each_row_counts_as_the_manual_says() {
        let rows: Vec<String> = TABLE
            .iter()
            .map(|row| {
                assert_eq!(row.ending.class(false), row.class);
                assert_eq!(row.ending.class(true), row.counting_tool_errors);
                format!("{:?} {:?} {:?}", row.ending, row.class, row.counting_tool_errors)
            })
            .collect();
        let wanted: Vec<&str> = WANTED.trim().lines().map(str::trim).collect();
        assert_eq!(rows, wanted);
    }

    #[test]
    fn statuses_and_codes_find_their_row() {
        for (status, ending) in [
            (400, Ending::OtherStatus),
            (401, Ending::WantsCredentials),
            (403, Ending::WantsCredentials),
            (404, Ending::OtherStatus),
            (407, Ending::OtherStatus),
            (408, Ending::ServerStatus),
            (409, Ending::OtherStatus),
            (429, Ending::Throttled),
            (499, Ending::OtherStatus),
            (500, Ending::ServerStatus),
            (503, Ending::ServerStatus),
            (599, Ending::ServerStatus),
            (600, Ending::OtherStatus),
        ] {
            assert_eq!(Ending::of_status(status), ending, "{status}");
        }
        for (code, ending) in [
            (-32600, Ending::RpcError),
            (-32602, Ending::RpcError),
            (-32000, Ending::RpcError),
            (-32019, Ending::RpcError),
            (-32020, Ending::OurMistake),
            (-32022, Ending::OurMistake),
            (-32023, Ending::RpcError),
            (0, Ending::RpcError),
        ] {
            assert_eq!(Ending::of_rpc_code(code), ending, "{code}");
        }
    }
}
