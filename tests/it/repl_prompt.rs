//! The prompt on a terminal, with servers behind it and no model: it is there at once, whatever they
//! do; its commands do what the command line does; it leaves the terminal as it found it.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Map, Value, json};

use crate::cli_home::Home;
use crate::support::pty::{CTRL_C, CTRL_D, Pty, TAB};

const PROGRAM: &str = env!("CARGO_BIN_EXE_callboard");

fn demo(name: &str) -> Value {
    json!({"command": PROGRAM, "args": ["__demo-server", name]})
}

fn home(servers: &[(&str, Value)]) -> Home {
    let home = Home::new();
    let servers: Map<String, Value> =
        servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    home.user(&json!({ "mcpServers": servers }).to_string());
    home
}

fn prompt(home: &Home) -> Pty {
    Pty::start(home.command(&[]), (30, 100))
}

#[test]
fn the_prompt_is_there_before_fifty_servers_are_half_of_which_never_answer() {
    let never = json!({"command": "sleep", "args": ["600"]});
    let names: Vec<String> = (0..50).map(|n| format!("s{n:02}")).collect();
    let servers: Vec<(&str, Value)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.as_str(), if n % 2 == 0 { demo("notes") } else { never.clone() }))
        .collect();
    let home = home(&servers);
    let mut pty = prompt(&home);
    pty.until("› ");
    let first = String::from_utf8_lossy(&pty.raw).into_owned();
    assert!(first.contains("0 ready"), "the prompt waited for a server:\n{first}");
    // It takes a line while they start, and says how they are as they come.
    pty.enter("/mode").until("› readonly").until("25 ready · 25 starting");
    pty.ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
}

#[test]
fn a_verb_at_the_prompt_is_the_verb_of_the_command_line_and_typing_it_is_the_approval() {
    let home = home(&[("crashy", demo("crashy")), ("notes", demo("notes"))]);
    let mut pty = prompt(&home);
    pty.until("2 ready");
    pty.enter("/mcp call crashy divide dividend=84 divisor=2").until("\n42");
    assert!(!pty.text().contains("[y/"), "{}", pty.text());
    pty.enter("/tool mcp__crashy__divide {\"dividend\": 9, \"divisor\":  3}").until("\n3");
    pty.enter("/mcp call crashy divide dividend=x").until("error:").until("/mcp call crashy divide --help");
    pty.enter("/mcp").until("crashy").until("add_note");
    pty.enter("/toolz").until("did you mean /tools?");
    pty.enter("/mcp sttus").until("did you mean `status`?");
    pty.enter("/exit");
    assert_eq!(pty.end(), 0);
}

#[test]
fn a_server_that_dies_and_one_that_comes_back_are_told_above_the_line_that_is_typed() {
    let home = home(&[("crashy", demo("crashy"))]);
    let mut pty = prompt(&home);
    pty.until("1 ready").enter("/mcp call crashy divide dividend=1 divisor=0").until("error:");
    pty.type_in("half a line").until("half a line").until("1 ready");
    pty.type_in("\r").until("no chat model is configured").ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
}

#[test]
fn what_is_stopped_by_hand_stays_so_and_a_changed_file_is_read_again() {
    let home = home(&[("notes", demo("notes")), ("crashy", demo("crashy"))]);
    let mut pty = prompt(&home);
    pty.until("2 ready").enter("/mcp stop notes").until("notes: parked").until("1 ready");
    pty.enter("/mcp call notes list_notes").until("error:");
    pty.enter("/mcp start notes").until("notes: ready").until("2 ready");
    home.user(&json!({"mcpServers": {"notes": demo("notes"), "clock": demo("clock")}}).to_string());
    pty.until("read again: added clock; removed crashy");
    pty.enter("/mcp off clock").until("clock").until("1 ready");
    pty.enter("/mcp add extra -- sleep 600").until("extra").until("1 starting");
    pty.ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
}

#[test]
fn a_running_verb_ends_at_ctrl_c_and_the_prompt_is_back() {
    let home = home(&[("hang", demo("hang"))]);
    let mut pty = prompt(&home);
    pty.until("1 ready").enter("/mcp call hang think question=why").until("think, ");
    pty.signal(Signal::INT).until("interrupted").until_it("a prompt", |text| text.trim_end().ends_with('›'));
    pty.ready().type_in(CTRL_C).until("Ctrl-C again").ready().type_in(CTRL_C);
    assert_eq!(pty.end(), 0);
}

#[test]
fn tab_completes_commands_servers_tools_and_arguments() {
    let home = home(&[("crashy", demo("crashy"))]);
    let mut pty = prompt(&home);
    pty.until("1 tool ").ready();
    pty.type_in("/mcp ca").type_in(TAB).until("/mcp call ");
    pty.type_in("cr").type_in(TAB).until("/mcp call crashy ");
    pty.type_in("di").type_in(TAB).until("/mcp call crashy divide dividend= divisor=");
    pty.type_in("dividend=8 divis").type_in(TAB).until("dividend=8 divisor=").type_in("4\r").until("\n2");
    pty.ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
}

#[test]
fn the_terminal_is_as_it_was_whatever_ends_the_program() {
    for signal in [Signal::TERM, Signal::HUP] {
        let home = home(&[("notes", demo("notes"))]);
        let mut pty = prompt(&home);
        pty.until("1 ready").type_in("half").until("half");
        assert!(!pty.is_plain(), "the editor is at work");
        assert_eq!(pty.signal(signal).end(), 130, "{}", pty.text());
        let shown = String::from_utf8_lossy(&pty.raw);
        assert!(shown.rfind("\u{1b}[?2004l") > shown.rfind("\u{1b}[?2004h"), "pasting is left as it was");
    }
}

#[test]
fn what_was_typed_is_kept_for_its_owner_alone_and_without_secrets() {
    let token = "tok-3v3ry-s3cr3t-1";
    let home = home(&[(
        "notes",
        json!({"command": PROGRAM, "args": ["__demo-server", "notes"], "env": {"API_TOKEN": token}}),
    )]);
    let mut pty = prompt(&home);
    pty.until("1 ready")
        .enter(&format!("/mcp call notes add_note text={token}"))
        .until_it("two prompts", |text| text.matches('›').count() > 1);
    pty.enter(" /mode").until("› readonly").ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
    let path = home.home().join("history.jsonl");
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept.contains("add_note") && !kept.contains(token) && !kept.contains("/mode"), "{kept}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut again = prompt(&home);
    again.until("1 ready").ready().type_in("\u{1b}[A").until("text=[redacted]").type_in(CTRL_C);
    again.until("Ctrl-C again").ready().type_in(CTRL_D);
    assert_eq!(again.end(), 0);
}

#[test]
fn without_colour_nothing_is_painted_and_the_bar_still_follows() {
    let home = home(&[("notes", demo("notes"))]);
    let mut command = home.command(&[]);
    command.env("NO_COLOR", "1");
    let mut pty = Pty::start(command, (20, 80));
    pty.until("1 ready").enter("/help").until("/compact").ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
    let shown = String::from_utf8_lossy(&pty.raw);
    let sequences = shown.split("\u{1b}[").skip(1);
    let painted = |sequence: &&str| {
        sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
    };
    assert_eq!(sequences.filter(painted).count(), 0, "{shown:?}");
}

#[test]
fn off_a_terminal_there_is_help_and_no_prompt() {
    let home = Home::new();
    let ran = home.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("callboard demo"), "{}", ran.stderr);
    let ran = home.run(&["--model", "x", "mcp", "list"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("both given"), "{}", ran.stderr);
}

#[test]
fn a_server_that_asks_in_the_middle_of_a_call_is_answered_in_a_form() {
    let bad = crate::support::bad::program().display().to_string();
    let home = home(&[(
        "bad",
        json!({"command": bad, "args": ["--request", "elicitation@call", "--request-wait"]}),
    )]);
    let mut pty = prompt(&home);
    pty.until("1 ready").enter("/mcp call bad count").until("bad asks you:").until("Your name?");
    pty.until("name (may be left empty): ").type_in("Ada\r").until("Send this to bad? [Y/n] ").type_in("\r");
    pty.until("elicitation/create").ready();
    pty.enter("/mcp call bad count")
        .until_it("a second form", |text| text.matches("bad asks you:").count() == 2);
    pty.until_it("its field", |text| text.trim_end().ends_with("empty):"))
        .type_in(CTRL_C)
        .ready()
        .type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
}
