//! The table of eras: what happens to each feature between a client and a server of either era, and the
//! tests that show it. `docs/eras.md` is this table; a cell without a proof fails here.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What happens in one pair.
enum Cell {
    /// Bytes pass; ids, names, tokens and the era's `_meta` keys aside.
    Passes,
    /// It is put into the other era's form.
    Adapted(&'static str),
    /// It is not there: which error, and why.
    Refused(&'static str),
}

use Cell::{Adapted, Passes, Refused};

/// One feature: the cells are legacy client with legacy and modern server, then modern client with both.
struct Row {
    feature: &'static str,
    cells: [Cell; 4],
    /// What stdio and HTTP do differently; empty: nothing.
    transports: &'static str,
    /// The tests that go through all cells.
    tests: &'static [&'static str],
}

const PAIRS: [&str; 4] = ["legacy.legacy", "legacy.modern", "modern.legacy", "modern.modern"];

const RESULT: &str = "the result gets `resultType`";
const STRIPPED: &str =
    "`resultType: complete` is taken out; `ttlMs`, `cacheScope` pass: unknown fields are skipped";
const CUT: &str = "cut from the catalogue: definitions as sent, in the form of the client's era";
const CALLS: &str = "tools_resources_prompts_and_completion_answer_in_all_pairs_byte_for_byte";
const LISTS: &str = "lists_of_all_kinds_keep_their_bytes_in_all_pairs_and_say_what_the_era_wants";
const ASKED: &str = "what_a_server_asks_reaches_the_client_of_the_call_if_it_can_answer";
const BY_RESULT: &str = "a_legacy_client_is_asked_what_a_modern_server_asks_by_its_result";
const IN_ROUNDS: &str = "a_modern_client_answers_a_legacy_server_in_rounds_and_the_bytes_pass";
const BETWEEN_MODERN: &str = "between_modern_peers_rounds_pass_byte_for_byte";

const QUESTIONS: [Cell; 4] = [
    Passes,
    Adapted(
        "what the result asks is sent as requests, and the call made again with the answers, at most 10 rounds",
    ),
    Adapted(
        "the call is parked; its client is told by `input_required` with a `requestState` of ours, and comes back",
    ),
    Passes,
];

const ROWS: &[Row] = &[
    Row {
        feature: "tools",
        cells: [Passes, Adapted(STRIPPED), Adapted(RESULT), Passes],
        transports: "",
        tests: &[CALLS, "answers_cross_the_eras_as_the_table_says"],
    },
    Row {
        feature: "structured results that are no object",
        cells: [Passes, Adapted("taken out, and told as text if the content is empty"), Passes, Passes],
        transports: "",
        tests: &["a_structured_result_that_is_no_object_reaches_legacy_clients_of_modern_servers_as_text"],
    },
    Row {
        feature: "output schemas that are no object",
        cells: [
            Adapted("left out of the definition"),
            Adapted("left out of the definition"),
            Adapted("left out of the definition"),
            Adapted("left out of the definition: one list serves clients of both eras"),
        ],
        transports: "",
        tests: &["bad_optional_parts_are_left_out_and_the_tool_stays"],
    },
    Row {
        feature: "lists and pagination",
        cells: [Adapted(CUT), Adapted(CUT), Adapted(CUT), Adapted(CUT)],
        transports: "",
        tests: &[LISTS, "pages_lose_and_repeat_nothing_and_a_foreign_cursor_is_refused"],
    },
    Row {
        feature: "resources",
        cells: [
            Passes,
            Adapted(STRIPPED),
            Adapted(
                "the result gets `resultType`, `ttlMs: 0` and `cacheScope: private`; −32002 becomes −32602",
            ),
            Passes,
        ],
        transports: "",
        tests: &[CALLS, "answers_cross_the_eras_as_the_table_says"],
    },
    Row {
        feature: "templates",
        cells: [Passes, Adapted(STRIPPED), Adapted(RESULT), Passes],
        transports: "",
        tests: &[CALLS, LISTS],
    },
    Row {
        feature: "subscriptions to a resource",
        cells: [
            Passes,
            Adapted(
                "`resources/subscribe` becomes the filter of our `subscriptions/listen`, updates lose its `subscriptionId`",
            ),
            Adapted(
                "`subscriptions/listen` becomes `resources/subscribe`, updates carry its `subscriptionId`",
            ),
            Adapted(
                "one stream of ours for all clients, opened anew when its filter changes; updates carry each client's own `subscriptionId`",
            ),
        ],
        transports: "",
        tests: &[
            "resources_are_followed_in_all_pairs_and_a_modern_server_hears_it_as_a_filter",
            "a_resource_is_asked_for_once_and_again_on_every_new_connection",
            "updates_reach_those_who_subscribed_and_the_server_is_told_when_the_last_one_leaves",
            "a_modern_client_listens_and_hears_changes_under_its_own_id",
        ],
    },
    Row {
        feature: "prompts",
        cells: [Passes, Adapted(STRIPPED), Adapted(RESULT), Passes],
        transports: "",
        tests: &[CALLS],
    },
    Row {
        feature: "completion",
        cells: [Passes, Adapted(STRIPPED), Adapted(RESULT), Passes],
        transports: "",
        tests: &[CALLS],
    },
    Row {
        feature: "logging",
        cells: [
            Passes,
            Adapted("the level that was set goes with every request (`_meta`)"),
            Adapted("the level of a request becomes `logging/setLevel`; without one nothing is told"),
            Passes,
        ],
        transports: "",
        tests: &[
            "log_levels_cross_the_eras",
            "servers_are_asked_for_the_lowest_level_and_each_client_hears_its_own",
        ],
    },
    Row {
        feature: "progress",
        cells: [Passes, Passes, Passes, Passes],
        transports: "",
        tests: &["progress_reaches_its_client_under_its_own_token_in_all_pairs"],
    },
    Row {
        feature: "cancellation",
        cells: [Passes, Passes, Passes, Passes],
        transports: "stdio and legacy HTTP: `notifications/cancelled`; modern HTTP: the end of the answer's stream",
        tests: &["a_cancelled_request_is_cancelled_at_its_server_in_all_pairs"],
    },
    Row {
        feature: "roots",
        cells: QUESTIONS,
        transports: "",
        tests: &[
            "a_server_that_asks_for_roots_is_its_clients_own_from_then_on",
            ASKED,
            BY_RESULT,
            IN_ROUNDS,
            BETWEEN_MODERN,
        ],
    },
    Row {
        feature: "sampling",
        cells: QUESTIONS,
        transports: "",
        tests: &[
            ASKED,
            "what_a_legacy_client_can_not_answer_is_declined_or_ends_the_call",
            IN_ROUNDS,
            BETWEEN_MODERN,
        ],
    },
    Row {
        feature: "elicitation, form",
        cells: QUESTIONS,
        transports: "",
        tests: &[ASKED, BY_RESULT, IN_ROUNDS, BETWEEN_MODERN],
    },
    Row {
        feature: "elicitation, URL",
        cells: QUESTIONS,
        transports: "",
        tests: &[ASKED, "a_question_with_a_url_is_put_to_clients_that_declare_it"],
    },
    Row {
        feature: "capabilities of the client",
        cells: [
            Adapted(
                "servers are told all that a client may have; one that has less declines, or answers −32601",
            ),
            Adapted(
                "those of the caller go with the call; what it can't answer is declined, or ends the call",
            ),
            Adapted(
                "servers are told all that a client may have; one that has less declines, or answers −32601",
            ),
            Passes,
        ],
        transports: "",
        tests: &[
            "a_modern_client_that_can_not_be_asked_gets_a_result_and_the_server_a_refusal",
            "what_a_legacy_client_can_not_answer_is_declined_or_ends_the_call",
            "a_capability_that_a_modern_server_misses_is_named_to_its_client",
        ],
    },
    Row {
        feature: "tasks",
        cells: [
            Passes,
            Refused(
                "−32602 for a task of nobody: a modern server makes tasks only for clients with its extension",
            ),
            Refused(
                "−32602 for a task of nobody: a legacy server makes tasks only when asked in the legacy way",
            ),
            Passes,
        ],
        transports: "",
        tests: &["a_task_is_found_by_the_client_that_made_it_and_by_nobody_else"],
    },
    Row {
        feature: "`_meta` of requests",
        cells: [
            Passes,
            Adapted("the modern keys are added, with our name and the caller's capabilities"),
            Adapted("the modern keys are taken out"),
            Adapted("revision, name and capabilities are set; all else passes"),
        ],
        transports: "",
        tests: &[
            "requests_carry_the_meta_of_their_servers_era_and_the_callers_own_keys",
            "params_leave_as_the_table_says",
        ],
    },
    Row {
        feature: "icons, annotations, `_meta` of results",
        cells: [Passes, Passes, Passes, Passes],
        transports: "",
        tests: &[CALLS, LISTS],
    },
    Row {
        feature: "unknown fields",
        cells: [Passes, Passes, Passes, Passes],
        transports: "",
        tests: &[CALLS, LISTS, "what_we_do_not_understand_passes_byte_for_byte"],
    },
    Row {
        feature: "unknown methods",
        cells: [Passes, Adapted(STRIPPED), Adapted(RESULT), Passes],
        transports: "",
        tests: &["methods_that_we_do_not_know_pass_in_all_pairs_and_unknown_ones_are_refused"],
    },
    Row {
        feature: "`x-mcp-header`",
        cells: [
            Passes,
            Adapted("headers are made from the arguments as they leave"),
            Passes,
            Adapted("headers are made from the arguments as they leave"),
        ],
        transports: "only HTTP has headers; on stdio the schema passes",
        tests: &["annotated_arguments_become_headers", "the_runtime_mirrors_parameters_for_the_server"],
    },
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The names of all tests in the Rust files below a folder.
fn tests_below(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut marked = false;
            for line in text.lines().map(str::trim) {
                marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                if let Some((_, rest)) = line.split_once("fn ").filter(|_| marked) {
                    found.push(rest.split('(').next().unwrap().to_owned());
                    marked = false;
                }
            }
        }
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Between the eras\n\n\
         What happens to each feature between a client and a server of either era: *legacy* (2024-11-05 to\n\
         2025-11-25, with `initialize`) and *modern* (2026-07-28, stateless). Made from `tests/it/eras_table.rs`, whose\n\
         test fails when this page is not what it says. The eras meet above the transports: stdio and HTTP do the same\n\
         unless the last column says what differs. Between revisions of the legacy era nothing is changed: what a\n\
         revision does not know is an unknown field to it, and passes.\n\n\
         | feature | legacy client, legacy server | legacy client, modern server | modern client, legacy server | \
         modern client, modern server | transports |\n|---|---|---|---|---|---|\n",
    );
    for row in ROWS {
        write!(page, "| {}", row.feature).unwrap();
        for cell in &row.cells {
            match cell {
                Passes => write!(page, " | passes"),
                Adapted(how) => write!(page, " | adapted: {how}"),
                Refused(why) => write!(page, " | not there: {why}"),
            }
            .unwrap();
        }
        let transports = if row.transports.is_empty() { "alike" } else { row.transports };
        writeln!(page, " | {transports} |").unwrap();
    }
    page.push_str(
        "\nA question in mid-call (roots, sampling, elicitation) that crosses into the modern era waits for its client\n\
         `serve.park_ttl`; the state leads back to it once, for the same client and the same call. A call that is made\n\
         again for a legacy client goes through the policy as every call does; the approval of a person counts for\n\
         the arguments, and the answers of later rounds are no part of them.\n\n## Proofs\n\n",
    );
    for row in ROWS {
        writeln!(page, "- {}: `{}`", row.feature, row.tests.join("`, `")).unwrap();
    }
    page
}

#[test]
fn every_cell_of_the_table_of_eras_has_a_proof_and_a_name_of_its_own() {
    let mut tests = Vec::new();
    tests_below(&root().join("tests"), &mut tests);
    tests_below(&root().join("src"), &mut tests);
    let mut ids = Vec::new();
    for row in ROWS {
        for (pair, cell) in PAIRS.iter().zip(&row.cells) {
            let id = format!("{}.{pair}", row.feature);
            assert!(!row.tests.is_empty() || matches!(cell, Refused(_)), "{id} has neither test nor refusal");
            ids.push(id);
        }
        for test in row.tests {
            assert!(tests.iter().any(|known| known == test), "{}: there is no test {test}", row.feature);
        }
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn the_page_of_the_eras_is_what_the_table_says() {
    let kept = std::fs::read_to_string(root().join("docs/eras.md")).unwrap_or_default();
    let page = page();
    if kept != page {
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("eras.md");
        std::fs::write(&fresh, &page).unwrap();
        panic!("docs/eras.md is stale; it should be as {}", fresh.display());
    }
}
