//! Exposed names: every (server, raw name) gets its own name that any client and any
//! model API accepts. A decision over sets: arrival order can't matter. Names are
//! looked up in the table that comes out of here and never taken apart again.
//!
//! In the styles with a double underscore a name is *plain* when its two halves can be
//! told apart for certain; every other identity carries a hash of itself. So a name
//! depends on its own identity alone, whichever other servers exist. The lowercase
//! style numbers its collisions, and needs the memory of names given before.
//! Called by `merge`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::merge::Conflict;
use crate::config::spec::NamingStyle;
use crate::id::{BUILTINS, ServerId};

/// Who a name belongs to: the configured server and the raw name as sent.
pub type Identity = (ServerId, String);

/// The longest exposed name that any style makes.
pub const NAME_LEN_MAX: usize = 64;
/// The shortest limit that can be asked for: prefix, some text and a hash must fit.
pub const NAME_LEN_MIN: usize = 24;
/// Hex digits of the hash in a name that is not plain.
const HASH_LEN: usize = 10;
/// Names of one server that are remembered although it no longer offers the tool.
const ABSENT_MAX: usize = 4096;

/// How names are made.
#[derive(Clone, Copy, Debug)]
pub struct NamingRule<'a> {
    /// The style.
    pub style: NamingStyle,
    /// Longest name, brought into `NAME_LEN_MIN..=NAME_LEN_MAX`.
    pub len_max: usize,
    /// Names that nobody gets.
    pub reserved: &'a [String],
}

/// The outcome of `assign`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The name of each identity; in the bare style not of those in conflict.
    pub given: BTreeMap<Identity, String>,
    /// Names that several identities claim (bare style only).
    pub conflicts: Vec<Conflict>,
}

/// Gives each identity its name. `remembered` names stay with their owner, and
/// absent owners keep theirs, as long as the style would still make that name. In the
/// bare style only the present set counts: a clash holds both.
pub fn assign(
    rule: NamingRule<'_>,
    identities: &BTreeSet<Identity>,
    remembered: &BTreeMap<Identity, String>,
) -> Names {
    let rule = NamingRule { len_max: rule.len_max.clamp(NAME_LEN_MIN, NAME_LEN_MAX), ..rule };
    let mut out = Names::default();
    let mut used: HashSet<String> = rule.reserved.iter().cloned().collect();
    // The host's own tools are called what they are called; nobody else gets these names.
    for identity in identities.iter().filter(|(server, _)| server.as_str() == BUILTINS) {
        used.insert(identity.1.clone());
        out.given.insert(identity.clone(), identity.1.clone());
    }
    let mut clashing = HashSet::new();
    if rule.style == NamingStyle::Bare {
        out.conflicts = clashes(rule, identities, &used);
        clashing.extend(out.conflicts.iter().map(|c| c.name.clone()));
        used.extend(clashing.iter().cloned());
    } else {
        for (identity, name) in remembered {
            if !out.given.contains_key(identity) && rule.would_make(identity, name) && !used.contains(name) {
                used.insert(name.clone());
                if identities.contains(identity) {
                    out.given.insert(identity.clone(), name.clone());
                }
            }
        }
    }
    let mut later = Vec::new();
    for identity in identities {
        if out.given.contains_key(identity) {
            continue;
        }
        let first = rule.candidate(identity, 0);
        if clashing.contains(&first) {
            continue;
        }
        if used.contains(&first) {
            later.push((identity, first));
        } else {
            used.insert(first.clone());
            out.given.insert(identity.clone(), first);
        }
    }
    // Where the search for a free name of that first choice goes on: numbers below are taken.
    let mut resume: HashMap<String, u32> = HashMap::new();
    for (identity, first) in later {
        let at = resume.entry(first).or_insert(1);
        let name = loop {
            let name = rule.candidate(identity, *at);
            *at += 1;
            if !used.contains(&name) {
                break name;
            }
        };
        used.insert(name.clone());
        out.given.insert(identity.clone(), name);
    }
    out
}

/// What to remember after `assign`: the names given, and those of absent owners. If one
/// server has more than 4,096 absent ones, these are forgotten.
pub fn remember(remembered: &BTreeMap<Identity, String>, names: &Names) -> BTreeMap<Identity, String> {
    let mut absent: HashMap<&ServerId, usize> = HashMap::new();
    for (server, tool) in remembered.keys() {
        if !names.given.contains_key(&(server.clone(), tool.clone())) {
            *absent.entry(server).or_default() += 1;
        }
    }
    let mut kept = names.given.clone();
    for (identity, name) in remembered {
        if absent.get(&identity.0).is_none_or(|&count| count <= ABSENT_MAX) {
            kept.entry(identity.clone()).or_insert_with(|| name.clone());
        }
    }
    kept
}

/// Names that more than one identity claims by being plain.
fn clashes(
    rule: NamingRule<'_>,
    identities: &BTreeSet<Identity>,
    reserved: &HashSet<String>,
) -> Vec<Conflict> {
    let mut claims: BTreeMap<String, Vec<Identity>> = BTreeMap::new();
    for identity in identities.iter().filter(|(server, _)| server.as_str() != BUILTINS) {
        let name = rule.candidate(identity, 0);
        if !reserved.contains(&name) {
            claims.entry(name).or_default().push(identity.clone());
        }
    }
    claims
        .into_iter()
        .filter(|(_, claimants)| claimants.len() > 1)
        .map(|(name, claimants)| Conflict { name, claimants })
        .collect()
}

impl NamingRule<'_> {
    /// The names that an identity may get, best first.
    fn candidate(&self, identity: &Identity, nth: u32) -> String {
        let (server, tool) = (identity.0.as_str(), identity.1.as_str());
        if self.style == NamingStyle::McpSingle {
            return self.numbered(server, tool, nth);
        }
        let plain = is_clean(tool)
            && !looks_hashed(tool)
            && (self.style == NamingStyle::Bare
                || (is_clean(server) && !server.contains("__") && !server.ends_with('_')));
        let name = self.join(server, tool);
        if plain && name.len() <= self.len_max {
            if nth == 0 {
                return name;
            }
            return self.hashed(server, tool, nth - 1);
        }
        self.hashed(server, tool, nth)
    }

    /// `mcp_server_tool`, then `…_2`, `…_3`.
    fn numbered(&self, server: &str, tool: &str, nth: u32) -> String {
        let mut name = lowered(&format!("mcp_{server}_{tool}"));
        let number = if nth == 0 { String::new() } else { format!("_{}", nth + 1) };
        if name.len() > self.len_max {
            let room = self.len_max - "mcp_".len() - 1 - HASH_LEN - 1;
            let mark = digest(server, tool, 0);
            let (server, tool) = shorten(&lowered(server), &lowered(tool), room);
            name = format!("mcp_{server}_{tool}_{mark}");
        }
        name.truncate(self.len_max - number.len());
        name + &number
    }

    /// A name that carries a hash of the identity; `salt` makes further ones.
    fn hashed(&self, server: &str, tool: &str, salt: u32) -> String {
        let digest = digest(server, tool, salt);
        let fixed = self.join("", "").len() + 1 + HASH_LEN;
        let server = if self.style == NamingStyle::Bare { String::new() } else { cleaned(server) };
        let (server, tool) = shorten(&server, &cleaned(tool), self.len_max - fixed);
        format!("{}_{digest}", self.join(&server, &tool))
    }

    fn join(&self, server: &str, tool: &str) -> String {
        match self.style {
            NamingStyle::McpDouble => format!("mcp__{server}__{tool}"),
            NamingStyle::McpSingle => format!("mcp_{server}_{tool}"),
            NamingStyle::ServerTool => format!("{server}__{tool}"),
            NamingStyle::Bare => tool.to_owned(),
        }
    }

    /// Whether a remembered name is one that this rule makes for its owner.
    fn would_make(&self, identity: &Identity, name: &str) -> bool {
        if self.style != NamingStyle::McpSingle {
            return (0..8).any(|nth| self.candidate(identity, nth) == name);
        }
        let number = name.rsplit_once('_').and_then(|(_, digits)| digits.parse::<u32>().ok());
        self.candidate(identity, 0) == name
            || number.is_some_and(|n| (2..1_000_000).contains(&n) && self.candidate(identity, n - 1) == name)
    }
}

/// `HASH_LEN` hex digits of SHA-256 over server, NUL, raw name (and NUL, salt).
fn digest(server: &str, tool: &str, salt: u32) -> String {
    let mut hasher = Sha256::new();
    hasher.update(server);
    hasher.update([0]);
    hasher.update(tool);
    if salt > 0 {
        hasher.update([0]);
        hasher.update(salt.to_be_bytes());
    }
    let mut hex = String::with_capacity(HASH_LEN + 1);
    for byte in hasher.finalize().iter().take(HASH_LEN.div_ceil(2)) {
        // Writing to a String can't fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex.truncate(HASH_LEN);
    hex
}

fn is_clean(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether a name has the form of one that carries a hash: such a tool gets a hash of
/// its own, so that nobody can take the name of another on purpose.
fn looks_hashed(tool: &str) -> bool {
    tool.len() > HASH_LEN
        && tool.as_bytes()[tool.len() - HASH_LEN - 1] == b'_'
        && tool.bytes().rev().take(HASH_LEN).all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Each run of other characters becomes one `_`.
fn replaced(part: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(part.len());
    let mut gap = false;
    for c in part.chars() {
        if keep(c) {
            out.push(c);
        } else if !gap {
            out.push('_');
        }
        gap = !keep(c);
    }
    out
}

fn cleaned(part: &str) -> String {
    replaced(part, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn lowered(part: &str) -> String {
    let name = replaced(&part.to_lowercase(), |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    name.trim_matches('_').to_owned()
}

/// Cuts two ASCII parts to `room` bytes together; each keeps at least half of it if it needs it.
fn shorten(server: &str, tool: &str, room: usize) -> (String, String) {
    let half = room / 2;
    let server_len = server.len().min(room.saturating_sub(tool.len()).max(half)).min(room);
    let tool_len = tool.len().min(room - server_len);
    (server[..server_len].to_owned(), tool[..tool_len].to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STYLES: [NamingStyle; 4] =
        [NamingStyle::McpDouble, NamingStyle::McpSingle, NamingStyle::ServerTool, NamingStyle::Bare];

    fn set(pairs: &[(&str, &str)]) -> BTreeSet<Identity> {
        pairs.iter().map(|(s, t)| (ServerId::from(*s), (*t).to_owned())).collect()
    }

    fn rule(style: NamingStyle) -> NamingRule<'static> {
        NamingRule { style, len_max: 64, reserved: &[] }
    }

    fn one(style: NamingStyle, server: &str, tool: &str) -> String {
        let names = assign(rule(style), &set(&[(server, tool)]), &BTreeMap::new());
        names.given.into_values().next().unwrap()
    }

    fn valid(name: &str, len_max: usize) -> bool {
        is_clean(name) && name.len() <= len_max
    }

    #[test]
    fn each_style_has_its_form() {
        assert_eq!(one(NamingStyle::McpDouble, "github", "create_issue"), "mcp__github__create_issue");
        assert_eq!(one(NamingStyle::McpSingle, "Docs", "read-File"), "mcp_docs_read_file");
        assert_eq!(one(NamingStyle::ServerTool, "github", "create_issue"), "github__create_issue");
        assert_eq!(one(NamingStyle::Bare, "github", "create_issue"), "create_issue");
        assert_eq!(one(NamingStyle::McpSingle, "日本", "x"), "mcp___x");
        assert_eq!(one(NamingStyle::McpSingle, "日本", "語"), "mcp");
    }

    #[test]
    fn servers_and_tools_that_meet_at_the_separator_stay_apart() {
        let identities =
            set(&[("a", "b__c"), ("a__b", "c"), ("a_", "_b"), ("a", "___b"), ("a__", "b"), ("my_db", "c")]);
        for style in STYLES {
            let names = assign(rule(style), &identities, &BTreeMap::new());
            let unique: BTreeSet<_> = names.given.values().collect();
            let held: usize = names.conflicts.iter().map(|c| c.claimants.len()).sum();
            assert_eq!(unique.len(), identities.len() - held, "{style:?}: {:?}", names.given);
            assert!(held == 0 || style == NamingStyle::Bare);
        }
        assert_eq!(one(NamingStyle::ServerTool, "a", "b__c"), "a__b__c");
        assert!(one(NamingStyle::ServerTool, "a__b", "c").starts_with("a__b__c_"));
    }

    #[test]
    fn raw_names_that_clean_to_the_same_text_both_carry_a_hash() {
        let names = assign(
            rule(NamingStyle::McpDouble),
            &set(&[("s", "a.b"), ("s", "a/b"), ("s", "a b"), ("s", "a_b")]),
            &BTreeMap::new(),
        );
        let given: Vec<_> = names.given.values().collect();
        assert_eq!(
            given.iter().filter(|n| n.len() == "mcp__s__a_b_0123456789".len()).count(),
            3,
            "{given:?}"
        );
        assert!(given.contains(&&"mcp__s__a_b".to_owned()));
    }

    #[test]
    fn hash_of_an_identity_never_changes() {
        assert_eq!(one(NamingStyle::McpDouble, "s", "a.b"), "mcp__s__a_b_407e8e5cd2");
        assert_eq!(one(NamingStyle::ServerTool, "Büro (test)", "größe"), "B_ro_test___gr_e_da5ebf39f7");
    }

    #[test]
    fn long_names_are_shortened_to_the_limit_and_keep_both_halves() {
        let server = "9f1c2d3e-4a5b-6c7d-8e9f-0a1b2c3d4e5f";
        for style in STYLES {
            for len_max in [NAME_LEN_MIN, 48, 63, 64] {
                for len in [1, 10, 40, 128] {
                    let (one, two) = (format!("{}x", "t".repeat(len)), format!("{}y", "t".repeat(len)));
                    let rule = NamingRule { style, len_max, reserved: &[] };
                    let names = assign(rule, &set(&[(server, &one), (server, &two)]), &BTreeMap::new());
                    let given: BTreeSet<_> = names.given.values().collect();
                    assert_eq!(given.len(), 2);
                    assert!(given.iter().all(|n| valid(n, len_max)), "{given:?}");
                    assert!(given.iter().all(|n| n.contains('t')), "{given:?}");
                }
            }
        }
        let exact = "t".repeat(64 - "mcp__s__".len());
        assert_eq!(one(NamingStyle::McpDouble, "s", &exact), format!("mcp__s__{exact}"));
        assert!(one(NamingStyle::McpDouble, "s", &format!("{exact}t")).len() == 64);
    }

    #[test]
    fn numbers_follow_identity_order_and_never_push_a_natural_name_aside() {
        let names = assign(
            rule(NamingStyle::McpSingle),
            &set(&[("a_b", "c"), ("a", "b_c"), ("A", "b_c"), ("a_b", "c_2"), ("a", "B.c")]),
            &BTreeMap::new(),
        );
        let of = |s: &str, t: &str| names.given[&(ServerId::from(s), t.to_owned())].as_str();
        assert_eq!(of("A", "b_c"), "mcp_a_b_c");
        assert_eq!(of("a_b", "c_2"), "mcp_a_b_c_2");
        assert_eq!(of("a", "B.c"), "mcp_a_b_c_3");
        assert_eq!(of("a", "b_c"), "mcp_a_b_c_4");
        assert_eq!(of("a_b", "c"), "mcp_a_b_c_5");
    }

    #[test]
    fn new_tool_takes_the_next_free_number_and_absent_owners_keep_theirs() {
        let rule = rule(NamingStyle::McpSingle);
        let first = assign(rule, &set(&[("m", "t"), ("n", "t"), ("m_t", "u")]), &BTreeMap::new());
        let mut memory = remember(&BTreeMap::new(), &first);
        let second = assign(rule, &set(&[("M", "t"), ("n", "t")]), &memory);
        assert_eq!(second.given[&(ServerId::from("M"), "t".to_owned())], "mcp_m_t_2", "mcp_m_t belongs to m");
        memory = remember(&memory, &second);
        let third = assign(rule, &set(&[("M", "t"), ("m", "t"), ("M", "T")]), &memory);
        assert_eq!(third.given[&(ServerId::from("m"), "t".to_owned())], "mcp_m_t");
        assert_eq!(third.given[&(ServerId::from("M"), "t".to_owned())], "mcp_m_t_2");
        assert_eq!(third.given[&(ServerId::from("M"), "T".to_owned())], "mcp_m_t_3");
    }

    #[test]
    fn reserved_names_are_never_taken() {
        let reserved = ["mcp_list_servers".to_owned(), "read_text".to_owned(), "mcp__a__b".to_owned()];
        let of = |style, server: &str, tool: &str| {
            let names = assign(
                NamingRule { style, len_max: 64, reserved: &reserved },
                &set(&[(server, tool)]),
                &BTreeMap::new(),
            );
            names.given.into_values().next().unwrap()
        };
        assert_eq!(of(NamingStyle::McpSingle, "list", "servers"), "mcp_list_servers_2");
        assert!(of(NamingStyle::Bare, "x", "read_text").starts_with("read_text_"));
        assert!(of(NamingStyle::McpDouble, "a", "b").starts_with("mcp__a__b_"));
    }

    #[test]
    fn bare_clash_holds_both_and_ends_when_one_leaves() {
        let both = assign(
            rule(NamingStyle::Bare),
            &set(&[("x", "send"), ("y", "send"), ("y", "get")]),
            &BTreeMap::new(),
        );
        assert_eq!(both.given.values().collect::<Vec<_>>(), ["get"]);
        assert_eq!(both.conflicts.len(), 1);
        assert_eq!(
            both.conflicts[0].claimants,
            set(&[("x", "send"), ("y", "send")]).into_iter().collect::<Vec<_>>()
        );
        let after =
            assign(rule(NamingStyle::Bare), &set(&[("y", "send")]), &remember(&BTreeMap::new(), &both));
        assert_eq!(after.given.values().collect::<Vec<_>>(), ["send"]);
    }

    #[test]
    fn nobody_can_take_the_hashed_name_of_another() {
        let victim = one(NamingStyle::ServerTool, "s", "a.b");
        let thief = victim.strip_prefix("s__").unwrap();
        let names =
            assign(rule(NamingStyle::ServerTool), &set(&[("s", "a.b"), ("s", thief)]), &BTreeMap::new());
        assert_eq!(names.given[&(ServerId::from("s"), "a.b".to_owned())], victim);
    }

    #[test]
    fn memory_of_absent_tools_is_bounded_per_server() {
        let none = Names::default();
        for (count, kept) in [(4095, 4095), (4096, 4096), (4097, 0)] {
            let mut memory: BTreeMap<_, _> =
                (0..count).map(|i| ((ServerId::from("s"), i.to_string()), format!("mcp_s_{i}"))).collect();
            memory.insert((ServerId::from("t"), "x".into()), "mcp_t_x".into());
            assert_eq!(remember(&memory, &none).len(), kept + 1);
        }
    }

    #[test]
    fn thousands_of_names_on_one_spot_are_numbered_in_linear_time() {
        let identities: BTreeSet<_> = (0..4096u32)
            .map(|i| (ServerId::from("s"), char::from_u32(0x4e00 + i).unwrap().to_string()))
            .collect();
        let names = assign(rule(NamingStyle::McpSingle), &identities, &BTreeMap::new());
        assert_eq!(names.given.values().collect::<BTreeSet<_>>().len(), 4096);
        assert_eq!(names.given.values().next_back().unwrap(), "mcp_s_4096");
    }

    /// All words over `alphabet` up to `len_max` characters.
    fn words(alphabet: &[&str], len_max: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..len_max {
            let upto = all.len();
            for i in from..upto {
                all.extend(alphabet.iter().map(|c| format!("{}{c}", all[i])).collect::<Vec<_>>());
            }
            from = upto;
        }
        all
    }

    /// Sets of identities that are bound to meet.
    fn identities() -> impl Strategy<Value = BTreeSet<Identity>> {
        let mut servers = words(&["a", "b", "_", "A", ".", "é"], 3);
        servers.push("9f1c2d3e-4a5b-6c7d-8e9f-0a1b2c3d4e5f".into());
        let mut tools = words(&["a", "b", "_", "/", "É"], 3);
        tools.extend((2..6).map(|n| format!("a_{n}")));
        tools.extend((40..64).flat_map(|n| ["x", "y"].map(|end| "t".repeat(n) + end)));
        tools.push("a_0123456789".into());
        let pair = (proptest::sample::select(servers), proptest::sample::select(tools));
        proptest::collection::btree_set(pair.prop_map(|(s, t)| (ServerId::new(s), t)), 0..10)
    }

    fn any_rule() -> impl Strategy<Value = (NamingStyle, usize, Vec<String>)> {
        let reserved: Vec<String> = words(&["a", "b"], 2)
            .into_iter()
            .chain(["a", "b"].map(|p| format!("mcp_{p}_a")))
            .chain(["a", "b"].map(|p| format!("mcp__{p}__a")))
            .chain(["a", "b"].map(|p| format!("{p}__a")))
            .collect();
        let reserved = proptest::collection::vec(proptest::sample::select(reserved), 0..4);
        (proptest::sample::select(STYLES.to_vec()), 20usize..70, reserved)
    }

    /// Sets of names that are tried; `CALLBOARD_NAME_SETS` says another number.
    #[expect(clippy::disallowed_methods, reason = "a long run by hand says how long")]
    fn sets() -> u32 {
        std::env::var("CALLBOARD_NAME_SETS").ok().and_then(|sets| sets.parse().ok()).unwrap_or(10_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(sets()))]

        #[test]
        fn names_are_a_bijection_of_valid_unreserved_names(
            ids in identities(), (style, len_max, reserved) in any_rule(),
        ) {
            let names = assign(NamingRule { style, len_max, reserved: &reserved }, &ids, &BTreeMap::new());
            let held: usize = names.conflicts.iter().map(|c| c.claimants.len()).sum();
            prop_assert_eq!(names.given.len() + held, ids.len());
            prop_assert!(style == NamingStyle::Bare || held == 0);
            let unique: BTreeSet<_> = names.given.values().collect();
            prop_assert_eq!(unique.len(), names.given.len());
            for name in unique {
                prop_assert!(valid(name, len_max.clamp(NAME_LEN_MIN, NAME_LEN_MAX)), "{}", name);
                prop_assert!(!reserved.contains(name));
                prop_assert!(!names.conflicts.iter().any(|c| &c.name == name));
            }
        }

        #[test]
        fn names_given_before_stay_whoever_comes_and_goes(
            first in identities(), second in identities(), third in identities(), (style, len_max, reserved) in any_rule(),
        ) {
            let style = if style == NamingStyle::Bare { NamingStyle::McpSingle } else { style };
            let rule = NamingRule { style, len_max, reserved: &reserved };
            let mut memory: BTreeMap<Identity, String> = BTreeMap::new();
            for ids in [first, second, third] {
                let names = assign(rule, &ids, &memory);
                for (identity, name) in &names.given {
                    prop_assert_eq!(memory.get(identity).unwrap_or(name), name);
                }
                memory = remember(&memory, &names);
                let unique: BTreeSet<_> = memory.values().collect();
                prop_assert_eq!(unique.len(), memory.len());
            }
        }

        #[test]
        fn hashed_styles_need_no_memory_to_be_stable(
            ids in identities(), others in identities(), (style, len_max, reserved) in any_rule(),
        ) {
            let style = if style == NamingStyle::McpDouble { style } else { NamingStyle::ServerTool };
            let rule = NamingRule { style, len_max, reserved: &reserved };
            let alone = assign(rule, &ids, &BTreeMap::new());
            let all = assign(rule, &ids.union(&others).cloned().collect(), &BTreeMap::new());
            for (identity, name) in &alone.given {
                prop_assert_eq!(&all.given[identity], name);
            }
        }

        #[test]
        fn spoilt_memory_gives_no_bad_and_no_double_name(
            ids in identities(), (style, len_max, reserved) in any_rule(),
            spoilt in proptest::collection::vec(proptest::sample::select(
                ["", "a", "mcp_a", "mcp_a_a", "mcp_a_a_2", "mcp_a_b_99", "mcp__a__b", "a__b", "a__b.c", "é"].as_slice(),
            ), 10),
        ) {
            let memory: BTreeMap<_, _> = ids.iter().cloned().zip(spoilt.into_iter().map(str::to_owned)).collect();
            let names = assign(NamingRule { style, len_max, reserved: &reserved }, &ids, &memory);
            let unique: BTreeSet<_> = names.given.values().collect();
            prop_assert_eq!(unique.len(), names.given.len());
            prop_assert!(unique.iter().all(|n| valid(n, 64) && !reserved.contains(n)));
        }
    }
}
