//! Which credentials may go where: the arguments of a call must not hold a known credential of
//! another server, in any encoding, whatever the mode and the rules say. Pure. The caller's side
//! looks once (`FrontendRef`), the front end judges when it knows the server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::config::spec::SecretText;
use crate::id::ServerId;
use crate::shaping::redact::Redactor;

/// The credentials of all servers, and whose each is. Shows none of them.
#[derive(Debug, Default)]
pub struct Outbound {
    finder: Redactor,
    owners: Vec<BTreeSet<ServerId>>,
}

/// The owners of each credential that the parameters of a call hold; empty for nearly all calls.
pub type Carried = Vec<BTreeSet<ServerId>>;

impl Outbound {
    /// The guard for these credentials. Those that are too short to be told from words don't count.
    pub fn new(credentials: &BTreeMap<ServerId, Vec<SecretText>>) -> Self {
        let mut owners: BTreeMap<&str, BTreeSet<ServerId>> = BTreeMap::new();
        for (server, values) in credentials {
            for value in values {
                owners.entry(value.reveal().trim()).or_default().insert(server.clone());
            }
        }
        let values: Vec<SecretText> = owners.keys().copied().map(SecretText::new).collect();
        Self { finder: Redactor::new(&values), owners: owners.into_values().collect() }
    }

    /// What of it is in the parameters of a call, as bytes and as what their strings mean.
    pub fn carried(&self, params: &[u8]) -> Carried {
        if self.owners.is_empty() {
            return Carried::new();
        }
        let mut found = self.finder.values_in(params);
        // A string of JSON may be written in escapes that no encoder uses.
        if params.contains(&b'\\')
            && let Ok(value) = serde_json::from_slice::<Value>(params)
        {
            self.walk(&value, &mut found);
        }
        found.into_iter().filter_map(|number| self.owners.get(number).cloned()).collect()
    }

    fn walk(&self, value: &Value, found: &mut BTreeSet<usize>) {
        match value {
            Value::String(text) => found.extend(self.finder.values_in(text.as_bytes())),
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, found)),
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                found.extend(self.finder.values_in(name.as_bytes()));
                self.walk(member, found);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The server whose credential may not go to `to`; `None` when the call may pass. A credential
/// that two servers share goes to both.
pub fn offended<'a>(carried: &'a Carried, to: &ServerId) -> Option<&'a ServerId> {
    carried.iter().filter(|owners| !owners.contains(to)).find_map(BTreeSet::first)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn outbound(all: &[(&str, &[&str])]) -> Outbound {
        let values = |values: &[&str]| values.iter().map(|value| SecretText::new(*value)).collect();
        Outbound::new(&all.iter().map(|(server, of)| (ServerId::new(*server), values(of))).collect())
    }

    #[test]
    fn a_credential_goes_to_its_own_servers_and_to_no_other_in_any_encoding() {
        let guard =
            outbound(&[("a", &["canary-of-a-1", "shared-by-two"]), ("b", &["shared-by-two"]), ("c", &[])]);
        let escaped: String = "canary-of-a-1".chars().map(|c| format!("\\u{:04X}", u32::from(c))).collect();
        let hex: String = "canary-of-a-1".bytes().map(|b| format!("{b:02x}")).collect();
        for (text, to_a, to_b, to_c) in [
            ("nothing of note", true, true, true),
            ("x canary-of-a-1 y", true, false, false),
            (&STANDARD.encode("user:canary-of-a-1"), true, false, false),
            (&hex, true, false, false),
            (&escaped, true, false, false),
            ("q=canary%2Dof%2Da%2D1 canary-of-a-1", true, false, false),
            ("shared-by-two", true, true, false),
            ("shared-by-two canary-of-a-1", true, false, false),
        ] {
            for params in [
                format!("{{\"arguments\":{{\"t\":\"{text}\"}}}}"),
                format!("{{\"arguments\":{{\"{text}\":[1]}}}}"),
            ] {
                let carried = guard.carried(params.as_bytes());
                for (to, may) in [("a", to_a), ("b", to_b), ("c", to_c)] {
                    assert_eq!(offended(&carried, &ServerId::new(to)).is_none(), may, "{params} to {to}");
                }
            }
        }
    }

    #[test]
    fn short_values_and_no_values_refuse_nothing() {
        let guard = outbound(&[("a", &["pw12"])]);
        assert!(guard.carried(br#"{"arguments":{"t":"pw12"}}"#).is_empty());
        assert!(Outbound::default().carried(b"\\ anything").is_empty());
        assert!(!format!("{:?}", outbound(&[("a", &["canary-of-a-1"])])).contains("canary"));
    }
}
