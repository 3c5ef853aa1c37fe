//! The demo server itself, without the library between: it is every other test's fixture, so what its flags promise of the older
//! revisions is looked at here, and what it says is held against their schemas.

#[path = "support/schema.rs"]
mod schema;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use schema::Schema;
use serde_json::{Value, json};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A server and its pipes.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

/// How one ended, and what it had still to say.
struct Ended {
    code: Option<i32>,
    out: Vec<Value>,
    err: String,
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-supervised-demo-server"));
        command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, next: 0 }
    }

    /// A server of an older revision after the handshake.
    fn legacy(revision: &str, flags: &[&str]) -> Self {
        let mut server = Self::start(&[&["--legacy", revision, "--strict"], flags].concat());
        let result = server.initialize(revision);
        assert_eq!(result["protocolVersion"], revision);
        server.initialized();
        server
    }

    fn send(&mut self, message: Value) {
        let stdin = self.stdin.as_mut().expect("it is open");
        // One that has just exited is seen by its end.
        let _ = writeln!(stdin, "{message}");
    }

    /// The next line.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it has ended");
        serde_json::from_str(&line).expect("it writes JSON")
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.send(json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// The answer, which must come next.
    fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.answer("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn probe(&mut self) -> u64 {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        self.ask("server/discover", json!({"_meta": meta}))
    }

    fn initialize(&mut self, version: &str) -> Value {
        let params =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        self.answer("initialize", params)["result"].clone()
    }

    fn initialized(&mut self) {
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// The end of its input, unless it ends before.
    fn end(mut self) -> Ended {
        self.stdin = None;
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code();
        Ended { code, out: out.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), err }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Of a test that failed, or of a server that was not to be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The handshake, and everything a session has, in each of the older revisions; every line is one that its schema allows.
#[test]
fn it_speaks_each_of_the_older_revisions() {
    for revision in REVISIONS {
        let schema = Schema::of(revision);
        let check = |definition: &str, value: &Value| {
            if let Some(schema) = &schema {
                assert_eq!(schema.check(definition, value), Ok(()), "{revision}");
            }
        };
        let mut server = Server::start(&["--legacy", revision, "--strict"]);
        let result = server.initialize(revision);
        check("InitializeResult", &result);
        assert_eq!(result["protocolVersion"], revision);
        server.initialized();
        for (method, params, definition) in [
            ("ping", json!({}), "EmptyResult"),
            ("tools/list", json!({}), "ListToolsResult"),
            ("resources/list", json!({}), "ListResourcesResult"),
            ("resources/templates/list", json!({}), "ListResourceTemplatesResult"),
            ("resources/read", json!({"uri": "mem://counter"}), "ReadResourceResult"),
            ("prompts/list", json!({}), "ListPromptsResult"),
            ("prompts/get", json!({"name": "greet", "arguments": {"name": "x"}}), "GetPromptResult"),
            ("logging/setLevel", json!({"level": "warning"}), "EmptyResult"),
            ("resources/subscribe", json!({"uri": "mem://counter"}), "EmptyResult"),
            ("tools/call", json!({"name": "echo", "arguments": {"message": "x"}}), "CallToolResult"),
        ] {
            let answer = server.answer(method, params);
            check(definition, &answer["result"]);
            assert!(answer["result"].get("resultType").is_none() && answer["result"].get("ttlMs").is_none());
        }
        // What is subscribed is announced, with its parts; what is loud enough is logged.
        for (tool, arguments, method, last) in [
            ("bump", json!({}), "notifications/resources/updated", "1"),
            ("updated", json!({"uri": "mem://counter/part"}), "notifications/resources/updated", "announced"),
            ("flip", json!({}), "notifications/tools/list_changed", "true"),
            ("log", json!({"level": "error", "text": "x"}), "notifications/message", "true"),
        ] {
            let id = server.ask("tools/call", json!({"name": tool, "arguments": arguments}));
            let note = server.next();
            check("ServerNotification", &note);
            assert_eq!(note["method"], method);
            let answer = server.next();
            assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(id), &json!(last)));
        }
        let quiet = server.call("log", json!({"level": "info", "text": "x"}));
        assert_eq!(quiet["result"]["content"][0]["text"], "false");
        assert_eq!(server.answer("resources/unsubscribe", json!({"uri": "mem://counter"}))["result"], json!({}));
        let silent = server.call("bump", json!({}));
        assert_eq!(silent["result"]["content"][0]["text"], "2");
        for (uri, code) in [("mem://counter/part", None), ("mem://counters", Some(-32002)), ("x://y", Some(-32002))] {
            let answer = server.answer("resources/subscribe", json!({"uri": uri}));
            assert_eq!(answer["error"]["code"].as_i64(), code, "{uri}");
        }
        let unknown = server.answer("server/no-such-method", json!({}));
        assert_eq!(unknown["error"]["code"], -32601);
        let ended = server.end();
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{revision}");
    }
}

#[test]
fn it_answers_initialize_with_another_version() {
    for (flags, asked, answered) in [
        (&["--legacy", "2025-06-18"][..], "2025-11-25", "2025-06-18"),
        (&["--legacy", "2025-11-25"][..], "2024-11-05", "2024-11-05"),
        (&["--legacy", "2025-11-25"][..], "2026-07-28", "2025-11-25"),
        (&["--legacy", "2025-11-25", "--answer-version", "1999-01-01"][..], "2025-11-25", "1999-01-01"),
    ] {
        assert_eq!(Server::start(flags).initialize(asked)["protocolVersion"], answered, "{flags:?}");
    }
}

/// In every way that was seen.
#[test]
fn it_meets_the_probe() {
    let old = ["--legacy", "2025-11-25"];
    let with = |flags: &[&'static str]| [&old[..], flags].concat();
    for code in [-32601, -32602, -32600, 0] {
        let how = format!("error:{code}");
        let mut server = Server::start(&[&old[..], &["--on-discover", &how]].concat());
        server.probe();
        let answer = server.next();
        assert_eq!((&answer["error"]["code"], answer["error"].get("data")), (&json!(code), None));
        assert_eq!(server.initialize("2025-11-25")["protocolVersion"], "2025-11-25");
    }
    // Unless told otherwise it does not know the method.
    let mut server = Server::start(&with(&["--stderr-per-unknown", "94"]));
    server.probe();
    assert_eq!(server.next()["error"]["code"], -32601);
    assert_eq!(server.end().err.lines().count(), 94);

    for (flags, data) in [
        (&["--on-discover", "error:-32022"][..], json!({"supported": ["2026-07-28"], "requested": "2026-07-28"})),
        (&["--on-discover", "error:-32022", "--no-supported"], Value::Null),
    ] {
        let mut server = Server::start(flags);
        server.probe();
        let error = server.next()["error"].clone();
        assert_eq!((&error["code"], &error["data"]), (&json!(-32022), &data));
    }
    let mut server = Server::start(&["--on-discover", r#"result:{"supportedVersions":[]}"#]);
    server.probe();
    assert_eq!(server.next()["result"], json!({"supportedVersions": []}));

    // Silence, and the handshake all the same.
    let mut server = Server::start(&with(&["--on-discover", "ignore"]));
    server.probe();
    assert_eq!(server.initialize("2025-11-25")["protocolVersion"], "2025-11-25");

    // The end, with the probe read or unread.
    let mut server = Server::start(&with(&["--before-initialize", "exit:1", "--exit-text", "expected initialize"]));
    server.probe();
    let ended = server.end();
    assert_eq!((ended.code, ended.err.as_str(), ended.out.len()), (Some(1), "expected initialize\n", 0));
    let mut server = Server::start(&["--exit-unread", "4"]);
    server.probe();
    assert_eq!(server.end().code, Some(4));
}

#[test]
fn it_locks_to_the_modern_era() {
    let both = ["--legacy", "2025-11-25", "--dual"];
    let modern = |server: &mut Server, method: &str| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        assert_eq!(server.answer(method, json!({"_meta": meta}))["result"]["resultType"], "complete", "{method}");
    };
    let refuses = |mut server: Server| {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
        let error = server.answer("initialize", params)["error"].clone();
        assert_eq!((&error["code"], &error["data"]["supported"]), (&json!(-32022), &json!(["2026-07-28"])));
        // And goes on.
        modern(&mut server, "tools/list");
    };
    let mut server = Server::start(&[&both[..], &["--lock", "discover"]].concat());
    modern(&mut server, "server/discover");
    refuses(server);
    let mut server = Server::start(&[&both[..], &["--lock", "request"]].concat());
    modern(&mut server, "server/discover");
    modern(&mut server, "tools/list");
    refuses(server);
    // The first answer alone does not lock this one, and nothing locks one without the flag.
    for flags in [&["--lock", "request"][..], &[]] {
        let mut server = Server::start(&[&both[..], flags].concat());
        modern(&mut server, "server/discover");
        assert_eq!(server.initialize("2025-11-25")["protocolVersion"], "2025-11-25");
    }
    // A late answer locks when it is given.
    let mut server = Server::start(&[&both[..], &["--lock", "discover", "--on-discover", "late:1"]].concat());
    let probe = server.probe();
    assert_eq!(server.next()["id"], probe);
    refuses(server);
    // One that is asked before it knows of the handshake.
    let mut server = Server::start(&["--legacy", "2025-11-25", "--on-initialize", "error:-32022"]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    assert_eq!(server.answer("initialize", params)["error"]["data"]["supported"], json!(["2026-07-28"]));
}

#[test]
fn it_serves_without_a_handshake_or_not() {
    let mut server = Server::start(&["--legacy", "2025-11-25"]);
    assert!(server.answer("tools/list", json!({}))["result"]["tools"].is_array());
    let mut server = Server::start(&["--legacy", "2025-11-25", "--before-initialize", "error:-32602"]);
    assert_eq!(server.answer("tools/list", json!({}))["error"]["code"], -32602);
    assert_eq!(server.answer("ping", json!({}))["result"], json!({}));
    server.initialize("2025-11-25");
    assert!(server.answer("tools/list", json!({}))["result"]["tools"].is_array());
}

/// Notifications and requests of its own around the handshake, with ids from 0; the answers are expected.
#[test]
fn it_speaks_unasked() {
    let flags = ["--early", "tools,tools", "--ask-early", "ping", "--on-initialized", "prompts", "--ask", "roots/list"];
    let mut server = Server::start(&[&["--legacy", "2025-11-25", "--strict"], &flags[..]].concat());
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    server.ask("initialize", params);
    for _ in 0..2 {
        assert_eq!(server.next()["method"], "notifications/tools/list_changed");
    }
    assert_eq!(server.next(), json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}));
    server.send(json!({"jsonrpc": "2.0", "id": 0, "result": {}}));
    assert_eq!(server.next()["result"]["protocolVersion"], "2025-11-25");
    server.initialized();
    assert_eq!(server.next()["method"], "notifications/prompts/list_changed");
    assert_eq!(server.next(), json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
    server.send(json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}));
    // An answer to nothing is one too many.
    server.send(json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}));
    let ended = server.end();
    assert_eq!(ended.code, Some(70));
    assert!(ended.err.starts_with("rule broken: a response answers a request, once"), "{}", ended.err);
}

#[test]
fn it_asks_its_client() {
    for revision in REVISIONS {
        let schema = Schema::of(revision);
        let mut server = Server::legacy(revision, &[]);
        let methods = ["ping", "roots/list", "sampling/createMessage", "elicitation/create"];
        for method in methods.into_iter().take(if revision < "2025-06-18" { 3 } else { 4 }) {
            let call = server.ask("tools/call", json!({"name": "ask_client", "arguments": {"method": method}}));
            let asked = server.next();
            assert_eq!(asked["method"], method);
            if let Some(schema) = &schema {
                assert_eq!(schema.check("ServerRequest", &asked), Ok(()), "{revision}");
            }
            server.send(json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": method}}));
            let answer = server.next();
            assert_eq!(answer["id"], call);
            assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains(method), "{answer}");
        }
        let arguments = json!({"method": "ping", "id": "\"own\"", "cancel": true});
        server.ask("tools/call", json!({"name": "ask_client", "arguments": arguments}));
        assert_eq!(server.next()["id"], "own");
        let taken_back = server.next();
        assert_eq!(taken_back["params"]["requestId"], "own");
        if let Some(schema) = &schema {
            assert_eq!(schema.check("ServerNotification", &taken_back), Ok(()));
        }
        assert_eq!(server.next()["result"]["content"][0]["text"], "cancelled");
    }
}

#[test]
fn it_batches_where_the_revision_does() {
    let mut server = Server::legacy("2025-03-26", &[]);
    let call = server.ask("tools/call", json!({"name": "batch", "arguments": {"notes": 2, "ask": "ping"}}));
    let all = server.next();
    if let Some(schema) = Schema::of("2025-03-26") {
        // A response does not stand in the same array as a request by the schema; servers have been seen to do it.
        for message in all.as_array().unwrap() {
            assert_eq!(schema.check("JSONRPCMessage", message), Ok(()));
        }
    }
    assert_eq!(all.as_array().map(Vec::len), Some(4));
    assert_eq!((&all[2]["method"], &all[3]["id"]), (&json!("ping"), &json!(call)));
    // And takes them.
    server.send(json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}},
        {"jsonrpc": "2.0", "id": "b", "method": "no/method"},
    ]));
    let answers = server.next();
    assert_eq!((&answers[0]["id"], &answers[1]["error"]["code"]), (&json!("a"), &json!(-32601)));
    // Others ignore them.
    let mut server = Server::legacy("2025-06-18", &[]);
    server.send(json!([{"jsonrpc": "2.0", "id": "a", "method": "ping"}]));
    assert_eq!(server.answer("ping", json!({}))["result"], json!({}));
}

/// What a client must not do, each with the rule that is named.
#[test]
fn it_is_strict_if_asked() {
    let request =
        |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let note = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let modern = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let counter = json!({"uri": "mem://counter"});
    let in_session = [
        ("used once", vec![request(9, "ping", json!({})), request(9, "ping", json!({}))]),
        ("no such keys", vec![request(9, "tools/list", modern)]),
        ("no such method", vec![request(9, "subscriptions/listen", json!({"notifications": {}}))]),
        ("no such method", vec![request(9, "server/discover", json!({}))]),
        ("done once", vec![request(9, "initialize", json!({}))]),
        ("comes once", vec![note("notifications/initialized", json!({}))]),
        ("not cancelled", vec![note("notifications/cancelled", json!({"requestId": 1}))]),
        ("was asked", vec![note("notifications/cancelled", json!({"requestId": 77}))]),
        ("answers a request", vec![json!({"jsonrpc": "2.0", "id": 5, "result": {}})]),
        ("a method or an id", vec![json!({"jsonrpc": "2.0"})]),
        ("not subscribed", vec![request(9, "resources/unsubscribe", counter.clone())]),
        (
            "subscribed already",
            vec![request(8, "resources/subscribe", counter.clone()), request(9, "resources/subscribe", counter)],
        ),
    ];
    for (rule, messages) in in_session {
        let mut server = Server::legacy("2025-11-25", &[]);
        for message in messages {
            server.send(message);
        }
        let ended = server.end();
        assert!(ended.code == Some(70) && ended.err.contains(rule), "{rule}: {:?} {}", ended.code, ended.err);
    }
    let mut server = Server::legacy("2025-11-25", &["--capabilities", r#"{"resources":{}}"#]);
    server.send(request(9, "logging/setLevel", json!({"level": "info"})));
    assert!(server.end().err.contains("logging was not declared"));
    let mut server = Server::legacy("2025-11-25", &["--capabilities", r#"{"resources":{}}"#]);
    server.send(request(9, "resources/subscribe", json!({"uri": "mem://counter"})));
    assert!(server.end().err.contains("subscriptions were not declared"));
    for (rule, message) in [
        ("before the answer of initialize", request(9, "tools/list", json!({}))),
        ("before notifications/initialized", note("notifications/roots/list_changed", json!({}))),
        ("follows the answer", note("notifications/initialized", json!({}))),
    ] {
        let mut server = Server::start(&["--legacy", "2025-11-25", "--strict"]);
        // The probe may come, and a ping.
        server.probe();
        assert_eq!(server.next()["error"]["code"], -32601);
        assert_eq!(server.answer("ping", json!({}))["result"], json!({}));
        server.send(message);
        let ended = server.end();
        assert!(ended.code == Some(70) && ended.err.contains(rule), "{rule}: {:?} {}", ended.code, ended.err);
    }
    let mut server = Server::start(&["--legacy", "2025-11-25", "--strict"]);
    server.initialize("2025-11-25");
    server.send(request(9, "tools/list", json!({})));
    assert!(server.end().err.contains("before notifications/initialized"));
}

#[test]
fn help_lists_every_flag_that_there_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_mcp-supervised-demo-server")).arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for flag in ["--legacy VERSION", "--before-initialize HOW", "--lock WHEN", "--ask METHOD", "--strict", "batch {"] {
        assert!(text.contains(flag), "{flag}");
    }
}
