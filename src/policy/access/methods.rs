//! Requests of the protocol that use no tool, resource or prompt, and what is known of their effect.

/// Whether a request only asks or arranges what its client hears: nothing outside the server changes.
/// Methods that are not known here count as something that may change things.
pub fn is_harmless(method: &str) -> bool {
    matches!(
        method,
        "completion/complete"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "logging/setLevel"
            | "tasks/get"
            | "tasks/list"
            | "tasks/result"
            | "tasks/cancel"
            | "tasks/update"
            | "subscriptions/listen"
    )
}

/// Whether a second run of a request does no harm.
pub fn is_repeatable(method: &str) -> bool {
    is_harmless(method) && method != "tasks/update"
}
