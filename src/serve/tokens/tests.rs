//! What is kept of a token, and when it counts.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn home() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    (folder, home)
}

const NOW: SystemTime = UNIX_EPOCH;

#[test]
fn a_token_is_shown_once_kept_as_a_hash_and_carries_its_terms() {
    let (_keep, home) = home();
    let terms = TokenTerms {
        only: vec!["git*".to_owned()],
        rate: Some(TokenRate { per_second: 5, burst: 0 }),
        mode: Some(Mode::Safe),
        expires: Some(NOW + Duration::from_secs(60)),
    };
    let token = add(&home, "ci", &terms, NOW).unwrap();
    let text = std::fs::read_to_string(file(&home)).unwrap();
    assert!(!text.contains(&token) && !text.contains(&token[PREFIX.len()..]));
    assert!(!store::is_readable_by_others(&file(&home)));
    let book = TokenBook::load(&home).unwrap();
    let caller = book.find(&fingerprint(&token), NOW).unwrap();
    assert_eq!(caller.identity, Identity::Token("ci".into()));
    assert_eq!((caller.mode, caller.rate.unwrap().per_second), (Some(Mode::Safe), 5));
    assert!(caller.sees_server(&crate::id::ServerId::new("git")));
    assert!(!caller.sees_server(&crate::id::ServerId::new("mail")));
    assert!(book.find(&fingerprint(&token), NOW + Duration::from_secs(60)).is_none(), "it has expired");
    for other in [&token[1..], &token[..token.len() - 1], "", "callboard_", &text] {
        assert!(book.find(&fingerprint(other), NOW).is_none());
    }
}

#[test]
fn whatever_is_shown_is_compared_with_every_token_in_whole_hashes() {
    let (_keep, home) = home();
    let ends = TokenTerms { expires: Some(NOW + Duration::from_secs(1)), ..TokenTerms::default() };
    let expired = add(&home, "old", &ends, NOW).unwrap();
    let first = add(&home, "a", &TokenTerms::default(), NOW).unwrap();
    let last = add(&home, "z", &TokenTerms::default(), NOW).unwrap();
    let book = TokenBook::load(&home).unwrap();
    let own = own(&home).unwrap();
    let near = format!("{}x", &first[..first.len() - 1]);
    let long = first.repeat(1000);
    let now = NOW + Duration::from_secs(5);
    for (shown, counts) in [
        (first.as_str(), true),
        (&last, true),
        (&own, true),
        (&expired, false),
        (&near, false),
        (&first[..20], false),
        (&long, false),
        ("", false),
    ] {
        let print = fingerprint(shown);
        let mut compared = Vec::new();
        let found = book.look(now, |known| {
            compared.push(*known);
            same(known, &print)
        });
        assert_eq!(found.is_some(), counts, "{shown}");
        compared.sort_unstable();
        let mut all = [&expired, &first, &last, &own].map(|token| fingerprint(token)).to_vec();
        all.sort_unstable();
        assert_eq!(compared, all, "{shown}");
    }
}

#[test]
fn names_are_unique_and_a_removed_token_counts_no_more() {
    let (_keep, home) = home();
    let token = add(&home, "ci", &TokenTerms::default(), NOW).unwrap();
    assert!(matches!(add(&home, "ci", &TokenTerms::default(), NOW), Err(TokenError::Taken(_))));
    for bad in ["", "a b", "a/b", "ü", &"x".repeat(65)] {
        assert!(matches!(add(&home, bad, &TokenTerms::default(), NOW), Err(TokenError::BadName(_))));
    }
    remove(&home, "ci").unwrap();
    assert!(matches!(remove(&home, "ci"), Err(TokenError::Unknown(_))));
    assert!(TokenBook::load(&home).unwrap().find(&fingerprint(&token), NOW).is_none());
    assert_eq!(read(&home).unwrap(), []);
}

#[test]
fn the_hosts_own_token_is_made_once_and_means_the_same_user() {
    let (_keep, home) = home();
    let token = own(&home).unwrap();
    assert_eq!(own(&home).unwrap(), token);
    assert!(!store::is_readable_by_others(&own_file(&home)));
    let caller = TokenBook::load(&home).unwrap().find(&fingerprint(&token), NOW).unwrap();
    assert_eq!(caller.identity, Identity::SameUser);
    std::fs::write(own_file(&home), "short").unwrap();
    assert!(matches!(own(&home), Err(TokenError::Broken(..))));
}

#[test]
#[cfg(unix)]
fn a_file_that_others_may_read_or_that_is_broken_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_keep, home) = home();
    add(&home, "ci", &TokenTerms::default(), NOW).unwrap();
    let path = file(&home);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(read(&home), Err(TokenError::Exposed(_))));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    for bad in [
        "{}".to_owned(),
        good.replace("\"version\": 1", "\"version\": 2"),
        good.replace("\"sha256\": \"", "\"sha256\": \"zz"),
        good.replace("\"created\"", "\"mode\": \"root\", \"created\""),
    ] {
        std::fs::write(&path, &bad).unwrap();
        assert!(matches!(read(&home), Err(TokenError::Broken(..))), "{bad}");
    }
}
