//! Storing, listing and removing secrets; no value ever comes out.

use super::*;
use crate::cli::call_args::Unread;

const VALUE: &str = "canary-value-0001";

/// Stands in for stdin.
struct Piped(&'static str);

impl ReadText for Piped {
    fn file(&mut self, _: &str) -> Result<String, Unread> {
        Err(Unread::Other("no file".to_owned()))
    }
    fn stdin(&mut self) -> Result<String, Unread> {
        Ok(self.0.to_owned())
    }
}

const USER: &str = r#"{"mcpServers":{"a":{"command":"x","env":{"T":"${secret:KEY}"}},"b":{"command":"x","env":{"T":"${secret:GONE}"}}}}"#;

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("mcp.json"), USER).unwrap();
    home
}

fn put(ctx: &Ctx, name: &str, text: &'static str) -> Result<Answer, Failure> {
    set(ctx, &SecretSet { name: name.to_owned(), extra: Vec::new() }, &mut Piped(text))
}

fn take(ctx: &Ctx, name: &str, force: bool) -> Result<Answer, Failure> {
    rm(ctx, &SecretRm { name: name.to_owned(), force })
}

#[test]
fn a_piped_value_is_stored_and_never_shown() {
    let home = home();
    let ctx = Ctx::for_test(home.path(), &[]);
    let first = put(&ctx, "KEY", "canary-value-0001\r\n").unwrap();
    assert!(first.human.starts_with("Stored KEY in ") && first.human.contains("Read by a (env.T)."));
    assert_eq!(secret_store::read(home.path()).unwrap()["KEY"].reveal(), VALUE);
    let again = put(&ctx, "KEY", "canary-value-0001").unwrap();
    assert!(again.human.starts_with("Replaced KEY"));
    let other = put(&ctx, "FREE", "canary-value-0001\n").unwrap();
    assert!(other.human.contains("Nothing reads it yet: write ${secret:FREE}"), "{}", other.human);
    let all = list(&ctx).unwrap();
    for answer in [first, again, other, all] {
        assert!(!format!("{answer:?}").contains("canary"), "{answer:?}");
    }
}

#[test]
fn the_list_says_where_each_is_read_and_what_is_missing() {
    let home = home();
    let ctx = Ctx::for_test(home.path(), &[]);
    put(&ctx, "KEY", "canary-value-0001").unwrap();
    let all = list(&ctx).unwrap();
    assert_eq!(
        all.human,
        "secret  stored  read by\n\
         GONE    no      b (env.T)\n\
         KEY     yes     a (env.T)"
    );
    assert_eq!(all.warnings, ["GONE is not stored, and read by b (env.T): callboard secret set GONE"]);
    let json: serde_json::Value = serde_json::from_str(all.data.get()).unwrap();
    assert_eq!(json["secrets"][1]["used_by"][0]["server"], "a");
    assert_eq!(json["secrets"][0]["stored"], false);
}

#[test]
fn a_secret_that_an_entry_reads_is_removed_only_by_force() {
    let home = home();
    let ctx = Ctx::for_test(home.path(), &[]);
    put(&ctx, "KEY", "canary-value-0001").unwrap();
    put(&ctx, "FREE", "canary-value-0001").unwrap();
    let failure = take(&ctx, "KEY", false).unwrap_err();
    assert_eq!((failure.code.as_ref(), failure.exit.code()), ("secret_in_use", 5));
    assert!(failure.message.contains("read by a (env.T)") && failure.fix.unwrap().contains("--force"));
    assert!(secret_store::read(home.path()).unwrap().contains_key("KEY"));
    take(&ctx, "FREE", false).unwrap();
    assert!(take(&ctx, "KEY", true).unwrap().human.contains("can't start without it"));
    assert!(secret_store::read(home.path()).unwrap().is_empty());
    let failure = take(&ctx, "KEY", false).unwrap_err();
    assert_eq!((failure.code.as_ref(), failure.exit.code()), ("unknown_secret", 4));
}

#[test]
fn what_can_be_no_secret_is_refused_without_a_word_of_it() {
    let home = home();
    let ctx = Ctx::for_test(home.path(), &[]);
    for text in ["", "\n", "canary-1\ncanary-2\n", "canary\u{0}", "canary\u{1b}[0m"] {
        let failure = put(&ctx, "KEY", text).unwrap_err();
        assert_eq!(failure.exit.code(), 2, "{text:?}");
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    }
    let on_the_line = SecretSet { name: "KEY".into(), extra: vec![VALUE.into()] };
    let failure = set(&ctx, &on_the_line, &mut Piped("")).unwrap_err();
    assert!(!format!("{failure:?}").contains("canary") && failure.fix.is_some());
    assert_eq!(put(&ctx, "no name", "canary").unwrap_err().exit.code(), 2);
    assert!(secret_store::read(home.path()).unwrap().is_empty());
}

#[test]
fn a_file_that_can_not_be_used_is_named_with_its_cure() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home();
    let ctx = Ctx::for_test(home.path(), &[]);
    put(&ctx, "KEY", "canary-value-0001").unwrap();
    let path = secret_store::file(home.path());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    for failure in
        [list(&ctx).unwrap_err(), put(&ctx, "L", "x").unwrap_err(), take(&ctx, "KEY", true).unwrap_err()]
    {
        assert_eq!((failure.code.as_ref(), failure.exit.code()), ("config_store", 3));
        assert!(failure.fix.unwrap().starts_with("chmod 600 "));
    }
}
