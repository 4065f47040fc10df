//! The flags: one table with name, argument and meaning, from which the parser and `--help` are made.
//! Owns the command line, must never act on a flag. Called by `main`.
//!
//! Parsed by hand, because a server that is started a thousand times in a test run should start in a millisecond or two.

use std::path::PathBuf;

use crate::values::{
    Arity, Ask, At, Auth, BadOutput, BadSchema, Capability, ContentKind, DescKind, EraFlag, Everywhere, Flag,
    Hertz, HttpAnswer, HttpFail, Json, List, Maybe, Megabytes, NameKind, OnCancel, Place, Redirect, Size,
    Strictness, WrongId,
};

macro_rules! flags {
    ($($group:literal { $($(#[doc = $doc:literal])* $field:ident: $ty:ty = $name:literal $arg:literal;)* })*) => {
        /// Everything that the command line said.
        #[derive(Debug, Default)]
        pub(crate) struct Flags { $($($(#[doc = $doc])* pub(crate) $field: $ty,)*)* }

        fn slot<'a>(flags: &'a mut Flags, name: &str) -> Option<&'a mut dyn Flag> {
            match name { $($($name => Some(&mut flags.$field),)*)* _ => None }
        }

        /// Group, flag, argument, meaning.
        const TABLE: &[(&str, &str, &str, &str)] = &[$($(($group, $name, $arg, concat!($($doc),*)),)*)*];
    };
}

flags! {
    "Base and oracle" {
        /// append one JSON line per event: start, in, out, http, signal, eof, exit, …
        trace: Option<PathBuf> = "--trace" "FILE";
        /// tool `count` adds a line to FILE each time that it really executes
        count: Option<PathBuf> = "--count" "FILE";
        /// add a line (the pid) per process start
        count_starts: Option<PathBuf> = "--count-starts" "FILE";
        /// add a line (a pid) for this process and each helper that it starts
        pid_file: Option<PathBuf> = "--pid-file" "FILE";
        /// write `eof`, `term`, `int`, `hup` in order of arrival
        log_shutdown: Option<PathBuf> = "--log-shutdown" "FILE";
        /// poll FILE for commands, one a line: see `control.rs`
        control: Option<PathBuf> = "--control" "FILE";
        /// counter file of --fail-starts and --crash-calls (else beside --count-starts, --trace or --count)
        state: Option<PathBuf> = "--state" "FILE";
        /// N plain tools t0…, listed after echo, sleep, count, big, env (default 8; 3 with --bad-schema)
        tools: Option<usize> = "--tools" "N";
        /// one more plain tool of that name
        tool: Vec<String> = "--tool" "NAME";
        /// serverInfo.name (default badmcp)
        name: Option<String> = "--name" "NAME";
        /// serve Streamable HTTP on 127.0.0.1 instead of stdio; 0 or no port: any free one
        http: Maybe<u16> = "--http" "[PORT]";
        /// write the bound port to FILE (renamed into place)
        port_file: Option<PathBuf> = "--port-file" "FILE";
        /// HTTP: exit when stdin ends, so that no server outlives its test
        die_with_stdin: bool = "--die-with-stdin" "";
        /// write output in flushed pieces of that many bytes
        dribble: Option<usize> = "--dribble" "BYTES";
        /// handle one request at a time, ping included
        serial: bool = "--serial" "";
        /// seed of every random choice (default 1)
        seed: Option<u64> = "--seed" "N";
    }
    "Start and handshake" {
        /// legacy (initialize up to 2025-11-25; the default), modern (2026-07-28) or both, on either transport
        era: Option<EraFlag> = "--era" "legacy|modern|both";
        /// wait before answering initialize or server/discover
        start_delay: Option<u64> = "--start-delay" "MS";
        /// read, never answer initialize nor server/discover
        never_initialize: bool = "--never-initialize" "";
        /// never answer server/discover
        discover_silent: bool = "--discover-silent" "";
        /// exit 1 on any first request but initialize and ping
        exit_on_unknown_first: bool = "--exit-on-unknown-first" "";
        /// modern: exit 0 after refusing an initialize or a version
        exit_on_unsupported: bool = "--exit-on-unsupported" "";
        /// exit at once with that code
        exit_on_start: Option<u16> = "--exit-on-start" "CODE";
        /// print TEXT on stderr at start
        stderr: Option<String> = "--stderr" "TEXT";
        /// the first N starts exit 1 before reading anything, later ones are healthy
        fail_starts: Option<u64> = "--fail-starts" "N";
        /// answer initialize with version V
        init_version: Option<String> = "--init-version" "V";
        /// refuse initialize above V: -32602, over HTTP 400, both with a supported list
        reject_newer_version: Option<String> = "--reject-newer-version" "V";
        /// N notifications (list_changed, log) and a ping before the initialize answer
        notify_before_init: Option<u64> = "--notify-before-init" "N";
        /// ask roots/list before answering initialize, and wait for the reply
        request_roots_before_init: bool = "--request-roots-before-init" "";
        /// until notifications/initialized: the last tool is hidden, or (`error`) lists and calls get -32002
        require_initialized: Maybe<Strictness> = "--require-initialized" "[hide|error]";
        /// HTTP: accept the request, never answer
        accept_no_reply: bool = "--accept-no-reply" "";
        /// leave capabilities out: tools,resources,prompts,logging,completions,list-changed,subscribe
        no_capability: Vec<Capability> = "--no-capability" "LIST";
    }
    "Framing and stdout" {
        /// plain line(s) on stdout before the first message
        banner: Option<String> = "--banner" "TEXT";
        /// a plain line before every N-th answer
        noise_every: Option<u64> = "--noise-every" "N";
        /// lines that are JSON but not JSON-RPC before answers (@start, @list, @call; none: all)
        json_noise: Maybe<Place> = "--json-noise" "[@PLACE]";
        /// CRLF line ends
        crlf: bool = "--crlf" "";
        /// UTF-8 byte order mark before the first message
        bom: bool = "--bom" "";
        /// empty and space-only lines between messages
        blank_lines: bool = "--blank-lines" "";
        /// flush in the middle of every multi-byte character
        split_utf8: bool = "--split-utf8" "";
        /// the answers at that place are lines of exactly MB megabytes (@call; @list; @start: instructions)
        huge_line: Option<At<Megabytes>> = "--huge-line" "MB[@PLACE]";
        /// after a whole notification: SIZE bytes of an answer without newline, never ended (@call)
        endless_line: Option<At<Size>> = "--endless-line" "SIZE[@PLACE]";
        /// answers packed in JSON arrays, gathered as by --reorder
        batch: bool = "--batch" "";
        /// close stdout, stay alive (@call)
        stdout_close: Maybe<Place> = "--stdout-close" "[@PLACE]";
        /// the answer is FILE's bytes as they are, with $ID replaced by the id (@call)
        raw_answer: Option<At<PathBuf>> = "--raw-answer" "FILE[@PLACE]";
        /// stdio: cut the answer in the middle and exit (@call)
        cut_answer: Maybe<Place> = "--cut-answer" "[@PLACE]";
    }
    "stderr" {
        /// write SIZE to stderr, blocking, before answering (@call)
        flood_stderr: Option<At<Size>> = "--flood-stderr" "SIZE[@PLACE]";
        /// same, as one endless line with carriage returns
        stderr_no_newline: Option<At<Size>> = "--stderr-no-newline" "SIZE[@PLACE]";
        /// print VALUE on stderr, at start and with each call
        stderr_secret: Option<String> = "--stderr-secret" "VALUE";
    }
    "Process life" {
        /// exit 0 right after the first tools/list answer
        exit_after_handshake: bool = "--exit-after-handshake" "";
        /// SIGKILL itself after reading a call
        kill_self_mid_call: bool = "--kill-self-mid-call" "";
        /// the first N calls kill the process, later ones are fine (counter file)
        crash_calls: Option<u64> = "--crash-calls" "N";
        /// execute the call, exit 1 before answering
        exit_after_execute: bool = "--exit-after-execute" "";
        /// do not react to TERM, INT and HUP
        ignore_sigterm: bool = "--ignore-sigterm" "";
        /// do not react to EOF on stdin
        ignore_stdin_eof: bool = "--ignore-stdin-eof" "";
        /// exit 1 s after EOF; TERM is logged and ignored
        exit_only_on_eof: bool = "--exit-only-on-eof" "";
        /// start a helper that sleeps for an hour and inherits all pipes; its pid goes to the trace
        fork_grandchild: bool = "--fork-grandchild" "";
        /// before anything else, try to get out to what the JSON in FILE names; see `escape.rs`
        escape: Option<PathBuf> = "--escape" "FILE";
        /// close stdout and exit 0 after MS without a running call
        self_close_idle: Option<u64> = "--self-close-idle" "MS";
    }
    "Ids and envelopes" {
        /// the id of every answer after the handshake is replaced
        wrong_id: Option<WrongId> = "--wrong-id" "zero|null|random";
        /// numeric ids come back as strings
        string_id: bool = "--string-id" "";
        /// calls (but not echo) are answered after MS, even if cancelled
        late_response: Option<u64> = "--late-response" "MS";
        /// answers leave in reverse order of their requests, once none is worked on for 30 ms (stdio)
        reorder: bool = "--reorder" "";
        /// every answer is sent twice
        answer_twice: bool = "--answer-twice" "";
        /// JSON-RPC error instead of a result (@call; @list: all lists)
        rpc_error: Option<At<i64>> = "--rpc-error" "CODE[@PLACE]";
        /// data of that error
        error_data: Option<Json> = "--error-data" "JSON";
    }
    "Server to client" {
        /// send these requests during a call: roots,sampling,elicitation,ping,unknown (@call)
        request: Option<At<List<Ask>>> = "--request" "LIST[@PLACE]";
        /// hold the call until every one was answered; its text lists the codes
        request_wait: bool = "--request-wait" "";
        /// no answer to ping
        ping_silent: bool = "--ping-silent" "";
        /// ping gets -32601
        ping_unsupported: bool = "--ping-unsupported" "";
        /// a log notification before each answer of a call
        log_on_call: bool = "--log-on-call" "";
    }
    "Catalogue" {
        /// paging with opaque cursors, for all lists
        page_size: Option<usize> = "--page-size" "N";
        /// the whole list and the same cursor for ever
        cursor_loop: bool = "--cursor-loop" "";
        /// two halves, cursors A, B, A, …
        cursor_cycle: bool = "--cursor-cycle" "";
        /// odd names: long,dots,slash,space,unicode,empty,sep
        name_kind: Vec<NameKind> = "--name-kind" "LIST";
        /// broken tools: anyof-top,string-root,missing,empty-object,required-null,null-tool
        bad_schema: Vec<BadSchema> = "--bad-schema" "LIST";
        /// broken output schemas: no-type,garbage
        bad_output_schema: Vec<BadOutput> = "--bad-output-schema" "LIST";
        /// annotations of the wrong type
        bad_annotations: bool = "--bad-annotations" "";
        /// `$schema` values, one tool each: draft-04,draft-07,2020-12,nonsense or any URI
        schema_dialect: Vec<String> = "--schema-dialect" "LIST";
        /// title, icons, _meta, annotations, unknown vendor fields on tools and results
        extra_fields: bool = "--extra-fields" "";
        /// descriptions change after N lists
        mutate_desc_after: Option<u64> = "--mutate-desc-after" "N";
        /// hints change after the first list
        mutate_annotations: bool = "--mutate-annotations" "";
        /// key order of schemas changes after the first list
        reorder_schema_keys: bool = "--reorder-schema-keys" "";
        /// list_changed at this rate, list unchanged
        list_changed_storm: Option<Hertz> = "--list-changed-storm" "HZ";
        /// each tools/list answer is followed by list_changed
        list_changed_on_list: bool = "--list-changed-on-list" "";
        /// tool `located` whose arguments must be repeated in Mcp-Param headers (modern HTTP)
        param_headers: bool = "--param-headers" "";
    }
    "Calls" {
        /// calls take MS
        slow: Option<u64> = "--slow" "MS";
        /// progress with the request's token while a call takes its time
        progress_every: Option<u64> = "--progress-every" "MS";
        /// progress without end (each --progress-every, else 100 ms), call never answered
        progress_forever: bool = "--progress-forever" "";
        /// reaction to notifications/cancelled (default honour: the call ends without an answer)
        on_cancel: Option<OnCancel> = "--on-cancel" "honour|ignore";
        /// -32602 when `arguments` is missing or not an object
        strict_args: bool = "--strict-args" "";
        /// `isError: true` with text
        is_error: bool = "--is-error" "";
    }
    "Results" {
        /// data only in structuredContent
        structured_only: bool = "--structured-only" "";
        /// one block per kind: text,image,audio,resource_link,embedded,blob,unknown
        content_kind: Vec<ContentKind> = "--content-kind" "LIST";
        /// image block of N megabytes
        image_mb: Option<Megabytes> = "--image-mb" "N";
        /// the image's MIME type is not what its data is
        mime_lie: bool = "--mime-lie" "";
        /// the image's base64 is broken
        bad_base64: bool = "--bad-base64" "";
        /// text of exactly SIZE ending in the marker; with --structured-only, --is-error, --rpc-error: there
        big_result: Option<Size> = "--big-result" "SIZE";
        /// file with the marker that ends big results (default: [badmcp end])
        marker_file: Option<PathBuf> = "--marker-file" "FILE";
        /// 2-, 3- and 4-byte characters placed around every likely cap
        multibyte_result: bool = "--multibyte-result" "";
    }
    "Hostile text" {
        /// descriptions of tools and parameters: inject,ansi,tags,bidi,zero-width,huge(SIZE)
        desc_kind: Vec<DescKind> = "--desc-kind" "LIST";
        /// ESC, OSC, C1 and lone CR in every string that the server controls
        ansi: Option<Everywhere> = "--ansi" "everywhere";
        /// URL in icons, links, authentication metadata
        evil_urls: Option<String> = "--evil-urls" "URL";
        /// HTTP error bodies repeat the request's headers
        echo_auth_in_error: bool = "--echo-auth-in-error" "";
    }
    "HTTP" {
        /// 404 for the session after N calls, reads and gets (0: for everything after initialize)
        session_expire: Option<u64> = "--session-expire" "N";
        /// same (N = 1 if not given), told as 200 with an error body
        session_expire_200: bool = "--session-expire-200" "";
        /// same, told as 400
        session_400: bool = "--session-400" "";
        /// the session header is sent twice; a request that joins the two as `a, a` gets 404
        session_id_dup_header: bool = "--session-id-dup-header" "";
        /// legacy without sessions
        stateless: bool = "--stateless" "";
        /// 405 on GET
        no_get: bool = "--no-get" "";
        /// 405 on DELETE
        no_delete: bool = "--no-delete" "";
        /// auto: JSON unless something must come before the answer
        http_answer: Option<HttpAnswer> = "--http-answer" "auto|json|sse";
        /// SSE with CRLF line ends
        sse_crlf: bool = "--sse-crlf" "";
        /// SSE with CR line ends
        sse_cr: bool = "--sse-cr" "";
        /// SSE data over several lines
        sse_multiline: bool = "--sse-multiline" "";
        /// SSE comments before each event, and at this rate while the stream is open
        sse_comments: Maybe<Hertz> = "--sse-comments" "[HZ]";
        /// SSE events without `event:`
        sse_no_event_name: bool = "--sse-no-event-name" "";
        /// SSE streams begin with an event of id, retry and empty data
        sse_prime: bool = "--sse-prime" "";
        /// `; charset=utf-8` in content types
        content_charset: bool = "--content-charset" "";
        /// 406 when Accept is not exactly what the specification asks for
        strict_accept: bool = "--strict-accept" "";
        /// 400 when MCP-Protocol-Version is absent or not the negotiated one, on every method
        strict_version_header: bool = "--strict-version-header" "";
        /// 401 and WWW-Authenticate without the current token
        auth: Option<Auth> = "--auth" "bearer";
        /// the current token (default badmcp-token; `token` in --control changes it)
        token: Option<String> = "--token" "VALUE";
        /// redirect every POST that is not at the target
        redirect: Option<Redirect> = "--redirect" "CODE:TARGET|loop";
        /// the first N requests (@start, @list, @call; none: of any kind) get an HTTP status
        http_fail: Option<At<HttpFail>> = "--http-fail" "STATUS[xN][:SECONDS][@PLACE]";
        /// close each connection after its answer
        no_keep_alive: bool = "--no-keep-alive" "";
        /// send half of a call's answer and close
        drop_mid_answer: bool = "--drop-mid-answer" "";
        /// speak the HTTP+SSE transport of 2024-11-05 alone (GET /sse, POST /messages)
        old_sse: bool = "--old-sse" "";
    }
}

/// Reads the command line (without the program's name). `Err` is the text for the user.
pub(crate) fn parse(words: &[String]) -> Result<Flags, String> {
    let mut flags = Flags::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if word == "--help" || word == "-h" {
            return Err(help());
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let slot =
            slot(&mut flags, name).ok_or_else(|| format!("badmcp: unknown flag {name}; see --help"))?;
        let value = match (slot.arity(), inline) {
            (Arity::None, None) => None,
            (Arity::None, Some(_)) => return Err(format!("badmcp: {name} takes no value")),
            (_, Some(value)) => Some(value),
            (Arity::One, None) => {
                let value = words.get(at).ok_or_else(|| format!("badmcp: {name} needs a value"))?;
                at += 1;
                Some(place_after(value, words, &mut at))
            }
            (Arity::Optional, None) => {
                let value = words.get(at).filter(|next| slot.takes(next)).cloned();
                at += usize::from(value.is_some());
                value
            }
        };
        slot.set(value.as_deref()).map_err(|e| format!("badmcp: {name}: {e}"))?;
    }
    check(flags)
}

/// `--request sampling @call`: the place may be a word of its own.
fn place_after(value: &str, words: &[String], at: &mut usize) -> String {
    match words.get(*at) {
        Some(place) if place.starts_with('@') && !value.contains('@') => {
            *at += 1;
            format!("{value}{place}")
        }
        _ => value.to_owned(),
    }
}

fn check(flags: Flags) -> Result<Flags, String> {
    if (flags.fail_starts.is_some() || flags.crash_calls.is_some()) && flags.state_file("x").is_none() {
        return Err("badmcp: --fail-starts and --crash-calls need a counter file: give --state FILE \
                    (or --count-starts, --trace or --count, beside which it is kept)"
            .into());
    }
    if flags.page_size == Some(0) {
        return Err("badmcp: --page-size must be at least 1".into());
    }
    if flags.dribble == Some(0) {
        return Err("badmcp: --dribble must be at least 1".into());
    }
    Ok(flags)
}

impl Flags {
    /// The file that holds the named counter across processes.
    pub(crate) fn state_file(&self, counter: &str) -> Option<PathBuf> {
        let base =
            [&self.state, &self.count_starts, &self.trace, &self.count].into_iter().flatten().next()?;
        let mut name = base.clone().into_os_string();
        name.push(format!(".{counter}"));
        Some(PathBuf::from(name))
    }

    pub(crate) fn lacks(&self, capability: Capability) -> bool {
        self.no_capability.contains(&capability)
    }
}

fn help() -> String {
    let mut text =
        String::from("badmcp: an MCP server that misbehaves on request. Without flags it is correct.\n");
    let mut last = "";
    for (group, name, arg, doc) in TABLE {
        if *group != last {
            text.push_str(&format!("\n{group}\n"));
            last = group;
        }
        text.push_str(&format!("  {:<38} {}\n", format!("{name} {arg}"), doc.trim()));
    }
    text
}
