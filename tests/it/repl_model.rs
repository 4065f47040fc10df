//! The prompt and `-p` with a model behind them: an endpoint of the test's own that speaks as OpenAI does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::support::pty::{CTRL_C, CTRL_D, Pty};

const PROGRAM: &str = env!("CARGO_BIN_EXE_callboard");

/// What the model is told, in order.
type Heard = Arc<Mutex<Vec<Value>>>;

/// Starts the endpoint; its address, and what it hears.
fn endpoint() -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let heard = Heard::default();
    let keep = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let keep = keep.clone();
            std::thread::spawn(move || while serve(&stream, &keep).is_some() {});
        }
    });
    (base, heard)
}

/// One exchange; `None` when the connection is over.
fn serve(mut stream: &TcpStream, heard: &Heard) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let last = request["messages"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    heard.lock().unwrap().push(last.clone());
    let piece = |delta: Value, end: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}))
    };
    let call = |name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        let calls = json!([{"index": 0, "id": format!("c{}", heard.lock().unwrap().len()), "type": "function", "function": function}]);
        piece(json!({"tool_calls": calls}), Value::Null) + &piece(json!({}), json!("tool_calls"))
    };
    let said = last["content"].to_string();
    let answer = match last["role"].as_str() {
        Some("tool") => {
            piece(json!({"content": "**Done**, I saw it.\n"}), Value::Null) + &piece(json!({}), json!("stop"))
        }
        _ if said.contains("divide") => call("mcp__crashy__divide", r#"{"dividend":84,"divisor":2}"#),
        _ if said.contains("think") => call("mcp__hang__think", r#"{"question":"why"}"#),
        _ => piece(json!({"content": "Hello there."}), Value::Null) + &piece(json!({}), json!("stop")),
    };
    let body = format!("{answer}data: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
    stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).ok()
}

fn home() -> Home {
    let home = Home::new();
    let demo = |name: &str| json!({"command": PROGRAM, "args": ["__demo-server", name]});
    home.user(&json!({"mcpServers": {"crashy": demo("crashy"), "hang": demo("hang")}}).to_string());
    home
}

#[test]
fn one_prompt_has_the_answer_on_stdout_and_nothing_else() {
    let (base, heard) = endpoint();
    let home = home();
    let ran = home.run_with(&["--base-url", &base, "--model", "m", "-p", "hi"], "from stdin");
    assert_eq!((ran.code, ran.stdout.trim_end()), (0, "Hello there."), "{ran:?}");
    assert!(heard.lock().unwrap()[0]["content"].to_string().contains("from stdin"));
    let ran = home.run(&[
        "--base-url",
        &base,
        "--model",
        "m",
        "-p",
        "divide",
        "--allow",
        "crashy/divide",
        "--json",
    ]);
    let told = ran.json(0);
    assert_eq!((&told["schema"], &told["data"]["calls"]), (&json!("callboard.agent/1"), &json!(1)), "{told}");
    assert!(heard.lock().unwrap().last().unwrap()["content"].to_string().contains("\\n42"));
    let ran = home.run(&["--base-url", &base, "--model", "m", "-p", "divide"]);
    assert_eq!(ran.code, 0, "a refusal is a result for the model: {ran:?}");
    // Not the digits alone: the id of a fence may hold them.
    let told = heard.lock().unwrap().last().unwrap()["content"].to_string();
    assert!(told.contains("needs_approval") && !told.contains("\\n42"), "nobody approved it: {told}");
    let ran = home.run(&["-p", "hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{ran:?}");
    assert!(ran.stderr.contains("fix:"), "{ran:?}");
}

#[test]
fn a_conversation_asks_before_it_calls_and_ends_a_hung_call_at_ctrl_c() {
    let (base, heard) = endpoint();
    let home = home();
    let mut pty = Pty::start(home.command(&["--base-url", &base, "--model", "m"]), (40, 100));
    pty.until("2 ready").enter("hello").until("Hello there.").until("readonly · m");
    pty.enter("divide it")
        .until("Call divide of crashy")
        .until("[N]")
        .type_in("y\r")
        .until("Done, I saw it.");
    assert!(heard.lock().unwrap().last().unwrap()["content"].to_string().contains("\\n42"));
    pty.enter("divide once more")
        .until_it("a second question", |text| text.matches("Call divide of crashy?").count() == 2);
    pty.type_in("n\r").until_it("a second answer", |text| text.matches("I saw it").count() == 2);
    assert!(!heard.lock().unwrap().last().unwrap()["content"].to_string().contains("\\n42"));
    pty.enter("think").until("Call think of hang?").type_in("y\r").until("think, ");
    pty.signal(rustix::process::Signal::INT).until("interrupted").ready();
    pty.enter("/usage")
        .until("conversation")
        .ready()
        .type_in(CTRL_C)
        .until("Ctrl-C again")
        .ready()
        .type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
    let mut pty = Pty::start(home.command(&["--base-url", &base, "--model", "m", "--continue"]), (40, 100));
    pty.enter("hello again").until("Hello there.").ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
}

#[test]
fn without_a_model_the_prompt_says_how_to_get_one() {
    let home = home();
    let mut pty = Pty::start(home.command(&[]), (40, 120));
    pty.until("2 ready")
        .enter("hello")
        .until("no chat model is configured")
        .until("provider = \"anthropic\"");
    pty.ready().type_in(CTRL_D);
    assert_eq!(pty.end(), 0);
}

#[test]
fn without_a_model_one_prompt_ends_with_the_three_ways_to_get_one() {
    let home = home();
    let ran = home.run(&["-p", "hello"]);
    let told = &ran.expect(3).stderr;
    for way in ["provider = \"ollama\"", "base_url = ", "provider = \"anthropic\""] {
        assert!(told.contains(way), "{told}");
    }
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let json = home.run(&["-p", "hello", "--json"]).json(3);
    assert_eq!(json["error"]["code"], "no_model");
    // Only what is missing is named.
    let ran = home.run(&["--base-url", "http://127.0.0.1:1/v1", "-p", "hello"]);
    assert!(ran.expect(3).stderr.contains("set model.name"), "{ran:?}");
}
