//! A client of the host at the wire: lines out, lines in, over the stdio edge.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use callboard::serve::{Caller, Client, ClientEra, Host, HostPlan, ServeSettings, stdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

use super::Fleet;

/// Longest wait for a message, on the paused clock.
const PATIENCE: Duration = Duration::from_secs(30);

/// A host on in-process servers.
pub async fn host(fleet: Fleet, change: impl FnOnce(&mut ServeSettings)) -> Arc<Host> {
    let mut settings = ServeSettings::default();
    change(&mut settings);
    Host::start(HostPlan::with(fleet.into_plan(), settings)).await.unwrap()
}

/// A client with a pipe to the host.
pub struct Raw {
    pub client: Arc<Client>,
    pub carried: tokio::task::JoinHandle<stdio::End>,
    output: Option<WriteHalf<DuplexStream>>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    /// What came while something else was waited for.
    pub aside: VecDeque<Value>,
    /// The last line, as bytes.
    pub line: String,
}

impl Raw {
    /// Attaches one.
    pub fn attach(host: &Arc<Host>) -> Self {
        Self::attach_as(host, Caller::same_user())
    }

    /// Attaches one that may see only a part.
    pub fn attach_as(host: &Arc<Host>, who: Caller) -> Self {
        Self::over(host.open(who, ClientEra::Open))
    }

    /// Carries one that is attached.
    pub fn over(client: Arc<Client>) -> Self {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let carrying = client.clone();
        let carried = tokio::spawn(async move { stdio::carry(&carrying, input, output, 16 << 20).await });
        let (input, output) = tokio::io::split(ours);
        let input = BufReader::new(input).lines();
        Self { client, carried, output: Some(output), input, aside: VecDeque::new(), line: String::new() }
    }

    /// Attaches one and goes through the handshake.
    pub async fn legacy(host: &Arc<Host>, capabilities: Value) -> Self {
        let mut raw = Self::attach(host);
        raw.welcome(capabilities).await;
        raw
    }

    /// The handshake; what was answered.
    pub async fn welcome(&mut self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        });
        let answer = self.ask("initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer["result"].clone()
    }

    /// Writes a message.
    pub async fn send(&mut self, message: &Value) {
        self.text(&message.to_string()).await;
    }

    /// Writes a line as it is.
    pub async fn text(&mut self, line: &str) {
        let output = self.output.as_mut().unwrap();
        output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Ends its input.
    pub async fn hang_up(&mut self) {
        self.output.take().unwrap().shutdown().await.unwrap();
    }

    /// The next line, whatever it holds, kept in `line`; `None` at the end of the stream.
    pub async fn line(&mut self) -> Option<()> {
        let line = tokio::time::timeout(PATIENCE, self.input.next_line()).await.expect("a message in time");
        self.line = line.unwrap()?;
        Some(())
    }

    /// The next message; `None` at the end of the stream.
    pub async fn read(&mut self) -> Option<Value> {
        self.line().await?;
        Some(serde_json::from_str(&self.line).unwrap_or_else(|e| panic!("{e}: {}", self.line)))
    }

    /// The first message that fits; the others are put aside.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.aside.iter().position(&fits) {
            return self.aside.remove(at).unwrap();
        }
        loop {
            let message = self.read().await.expect("the stream goes on");
            if fits(&message) {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    /// The notification or request of that method.
    pub async fn told(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method).await
    }

    /// The answer to that id.
    pub async fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.until(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// Sends a request under that id.
    pub async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
        self.send(&message).await;
    }

    /// Asks, and waits for the answer.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.request("ask", method, params).await;
        self.answer("ask").await
    }

    /// Asks as a client of the modern era.
    pub async fn ask_modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        self.ask(method, params).await
    }
}

/// The text of a result of a tool.
pub fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}
