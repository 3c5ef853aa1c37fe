//! Starting the child: what cannot be started says why, and what is started gets what the host said and nothing else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::served::*;
use crate::support::*;

/// Tries to start, and gives the text of the refusal. Nothing half made is left, and a second try says the same.
fn refused(host: &mut Host, spec: &Spec) -> String {
    let before = open_descriptors();
    let peer = host.add(spec);
    let texts = [0; 2].map(|_| {
        assert_eq!(host.start(peer), SPAWN);
        host.last_error()
    });
    assert_eq!(texts[0], texts[1]);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_IDLE as i32);
    assert_eq!(host.remove(peer), 0);
    assert_eq!((open_descriptors(), children().len()), (before, 0), "{}", texts[0]);
    texts[0].clone()
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
}

fn report(server: &mut Served, tool: &str, arguments: Value) -> Value {
    serde_json::from_str(&server.call(tool, arguments).tool_text()).unwrap()
}

/// The kind: the program is not there. By name, by path, relative, empty, behind a link to nowhere, at the start and at a restart:
/// the answer names it and the reason, and at a restart it is paid for.
#[test]
fn sp_01_a_command_that_is_not_there() {
    alone!();
    let scratch = Scratch::new();
    std::os::unix::fs::symlink("/nowhere/at/all", scratch.path().join("dangling")).unwrap();
    let mut host = Host::new();
    for program in
        ["no-such-program", "/no/such/program", "./x", "../x/y", &scratch.name("dangling"), &scratch.name("none")]
    {
        says(&refused(&mut host, &Spec::new(program)), &[program, "not found", "(2)"]);
    }
    says(&refused(&mut host, &Spec::new("/etc/passwd/x")), &["/etc/passwd/x", "(20)"]);
    let mut spec = std::ptr::null_mut();
    // SAFETY: an empty text and a place for the result.
    assert_eq!(unsafe { mcp_supervised_spec_new(std::ptr::null(), 0, &mut spec) }, INVALID, "an empty command");

    let spec = modern(scratch.link("server")).restart(2, 1, 60_000);
    let mut server = Served::by(Host::new(), &spec);
    server.goes_on();
    scratch.remove("server");
    server.is_killed();
    let peer = server.peer;
    let told = server.to_the_end(peer);
    assert_eq!(letters(&told), "D C E E X C");
    let error = told.iter().find(|e| e.letter() == "E").unwrap();
    assert_eq!((error.status, error.attempt), (SPAWN, 2));
    says(&error.text(), &["server", "not found", "(2)"]);
    assert_eq!(children(), [] as [i32; 0]);
}

/// The kind: the directory is the trouble, and not the command. Missing, a file, below a file, removed between two lives.
#[test]
fn sp_02_a_directory_that_is_not_there_is_named() {
    alone!(&[AS_IT_IS], |_| {});
    let scratch = Scratch::new();
    let file = scratch.data("file", "");
    let below = format!("{file}/below");
    let mut host = Host::new();
    for (cwd, errno) in [("/does/not/exist", "(2)"), (&file, "(20)"), (&below, "(20)")] {
        let text = refused(&mut host, &Spec::modern(&[]).cwd(cwd));
        says(&text, &[cwd, "directory", errno]);
        assert!(!text.contains(demo_server()), "the command is not at fault: {text}");
        // Both are missing: the directory is what is looked at first.
        says(&refused(&mut host, &Spec::new("no-such-program").cwd(cwd)), &[cwd, "directory"]);
    }
    let dir = scratch.directory("gone");
    let mut server = Served::by(Host::new(), &Spec::modern(&[]).cwd(&dir).restart(1, 1, 60_000));
    assert_eq!(server.call("cwd", json!({})).tool_text(), std::fs::canonicalize(&dir).unwrap().to_str().unwrap());
    std::fs::remove_dir(&dir).unwrap();
    server.is_killed();
    let error = server.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!(error.status, SPAWN);
    says(&error.text(), &[&dir, "directory"]);
}

/// The kind: the file is there and is no program: each reason by its own number, with the path.
#[test]
fn sp_03_files_that_are_no_programs() {
    alone!();
    let scratch = Scratch::new();
    let mut host = Host::new();
    let text = scratch.file("text", "755", "just text\n");
    for (program, errno) in [
        (scratch.file("plain", "644", "#!/bin/sh\n"), "(13)"),
        (scratch.directory("directory"), "(13)"),
        (text.clone(), "(8)"),
        (scratch.file("binary", "755", "\u{7f}ELF"), "(8)"),
        (scratch.file("empty", "755", ""), "(8)"),
        (scratch.file("orphan", "755", "#!/no/such/interpreter\n"), "(2)"),
        (scratch.file("circle", "755", "#!/proc/self/mem\n"), "(13)"),
    ] {
        says(&refused(&mut host, &Spec::new(&program)), &[&program, errno]);
    }
    // By name too; no shell is asked to run it.
    let by_name = Spec::new("text").env("PATH", scratch.path().as_os_str().as_encoded_bytes());
    says(&refused(&mut host, &by_name), &["text", "(8)"]);
    let long = (0..30).fold(Spec::modern(&[]), |spec, _| spec.arg("x".repeat(100_000)));
    says(&refused(&mut host, &long), &["(7)"]);
    let longest = Spec::modern(&[]).arg("x".repeat(3 << 20));
    says(&refused(&mut host, &longest), &["(7)"]);
    let mut server = Served::by(host, &Spec::modern(&[]));
    server.goes_on();
}

/// The kind: several programs of that name. The child's PATH if it has one, else the host's, and no third place; in every life.
#[test]
fn sp_04_one_rule_for_which_path_finds_the_command() {
    const NAME: &str = "faults-sp04";
    let scratch = Scratch::new();
    // Each place has another program of that name, which tells where it is from.
    let [ours, child, other] = ["host", "child", "other"].map(|name| {
        let dir = scratch.directory(name);
        let script = format!("#!/bin/sh\necho '{{\"jsonrpc\":\"2.0\",\"method\":\"{name}\"}}'\nread a\n");
        scratch.file(&format!("{name}/{NAME}"), "755", &script);
        dir
    });
    let path = format!("{ours}:{}", std::env::var("PATH").unwrap());
    alone!(&[("PATH", Some(&path))], |_| {});
    let spec = || Spec::new(NAME).mode(MCP_SUPERVISED_MODE_RAW).restart(2, 1, 60_000);
    let empty = || spec().env_mode(MCP_SUPERVISED_ENV_EMPTY);
    let mut host = Host::new().stepwise();
    for (what, spec, found) in [
        ("none given", spec(), "host"),
        ("inherited", spec().env_mode(MCP_SUPERVISED_ENV_INHERIT), "host"),
        ("one given", spec().env("PATH", &child), "child"),
        ("given last", empty().env("PATH", format!("/nowhere:{other}:{child}")), "other"),
        ("none at all", empty(), "host"),
    ] {
        let peer = host.launch(&spec);
        for life in 1..=2 {
            let message = host.next(MCP_SUPERVISED_EVENT_MESSAGE);
            assert_eq!((message.peer, message.method.as_slice()), (peer, found.as_bytes()), "{what}, life {life}");
            if life == 1 {
                kill9(host.pid(peer));
                host.next(MCP_SUPERVISED_EVENT_RECONNECT);
            }
        }
        host.close(peer);
        host.to_the_end(peer);
    }
    // An empty one, and one that does not have it: the host's is no second try.
    for path in ["", "/nowhere"] {
        let peer = host.add(&empty().env("PATH", path));
        assert_eq!(host.start(peer), SPAWN, "{path:?}");
        says(&host.last_error(), &[NAME, "not found"]);
    }
}

/// The kind: which variables arrive. Each mode, with additions: empty, with `=` in them, no text, twice; bad names are refused;
/// what the host changes later is not seen, in no life.
#[test]
fn sp_05_exactly_the_variables_that_were_said() {
    alone!(&[("FAULTS_SECRET", Some("s")), ("LANG", Some("C"))], |_| {});
    let block = |server: &mut Served| -> Vec<String> {
        let raw = report(server, "env", json!({"raw": true}));
        raw.as_array().unwrap().iter().map(|entry| entry.as_str().unwrap().to_owned()).collect()
    };
    let additions = |spec: Spec| {
        spec.env("EMPTY", "")
            .env("A", "=b=c")
            .env("TWICE", "1")
            .env("TWICE", "2")
            .env("BYTES", OsStr::from_bytes(b"\xff\xe9").as_bytes())
    };
    for mode in [MCP_SUPERVISED_ENV_SAFE, MCP_SUPERVISED_ENV_INHERIT, MCP_SUPERVISED_ENV_EMPTY] {
        let spec = additions(Spec::demo(&[]).env_mode(mode)).restart(3, 1, 60_000);
        let mut host = Host::new();
        let peer = host.launch(&spec);
        host.call(peer, "e", "env", json!({}));
        let first = host.answer("e").tool_text();
        let env: BTreeMap<String, String> = serde_json::from_str(&first).unwrap();
        assert_eq!((env["EMPTY"].as_str(), env["A"].as_str(), env["TWICE"].as_str()), ("", "=b=c", "2"));
        assert!(env.contains_key("BYTES"));
        assert_eq!(env.contains_key("FAULTS_SECRET"), mode == MCP_SUPERVISED_ENV_INHERIT);
        assert_eq!(env.contains_key("PATH"), mode != MCP_SUPERVISED_ENV_EMPTY);
        assert_eq!(env.contains_key("LANG"), mode != MCP_SUPERVISED_ENV_EMPTY);
        if mode == MCP_SUPERVISED_ENV_EMPTY {
            assert_eq!(env.len(), 4);
        }
        // SAFETY: no other thread reads or writes the environment now; this process runs one test.
        unsafe { std::env::set_var("FAULTS_LATER", "x") };
        kill9(host.pid(peer));
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        host.call(peer, "again", "env", json!({}));
        assert_eq!(host.answer("again").tool_text(), first, "{mode:?}");
        // SAFETY: as above.
        unsafe { std::env::remove_var("FAULTS_LATER") };
    }
    let mut server = Served::by(
        Host::new(),
        &Spec::modern(&[]).env_mode(MCP_SUPERVISED_ENV_EMPTY).env("TWICE", "1").env("TWICE", "2"),
    );
    let twice = block(&mut server).into_iter().filter(|entry| entry.starts_with("TWICE=")).collect::<Vec<_>>();
    assert_eq!(twice, ["TWICE=2"], "once, whoever reads the block");
    let spec = Spec::modern(&[]);
    for name in ["", "=", "A=B", "A\0"] {
        // SAFETY: a live spec and valid texts.
        let status = unsafe { mcp_supervised_spec_env(spec.raw(), name.as_ptr().cast(), name.len(), c"v".as_ptr(), 1) };
        assert_eq!(status, INVALID, "{name:?}");
    }
}

/// The kind: somebody takes arguments apart. Blanks, quotes, signs of a shell, line breaks, nothing, other scripts, no text at
/// all; and the same in the path of the program.
#[test]
fn sp_06_arguments_arrive_as_they_are() {
    let all = [
        "a b",
        "(x)",
        "$HOME",
        "*",
        "",
        "\u{65e5}\u{672c}",
        "\"q\"",
        "'",
        "a\nb",
        "\\",
        ";true",
        "`id`",
        "-",
        "--",
        "|",
        "\t",
        "#",
        "~",
    ];
    let spec = all.iter().fold(Spec::modern(&["--"]), |spec, arg| spec.arg(arg));
    let mut server = Served::by(Host::new(), &spec);
    let args = report(&mut server, "args", json!({}));
    let args: Vec<&str> = args.as_array().unwrap()[2..].iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(args, all);
    // No text at all; the kernel tells, since JSON cannot.
    let bytes = b"\xff\xfe caf\xe9";
    let server = Served::by(Host::new(), &Spec::modern(&["--"]).arg(bytes));
    let pid = server.pid;
    wait_for("it is the server", || {
        std::fs::read(format!("/proc/{pid}/cmdline")).unwrap().ends_with(&[&b"--\0"[..], bytes, b"\0"].concat())
    });
    let scratch = Scratch::new();
    for name in ["with space", "$(id)", "a;b", "\u{65e5}", "'q'", "*"] {
        let mut server = Served::by(Host::new(), &modern(scratch.link(name)));
        server.goes_on();
        assert_eq!(report(&mut server, "args", json!({}))[0], scratch.name(name));
    }
}

/// A child of the host's own, which goes with the test.
struct Sleeper(std::process::Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kind: descriptors that a child should not have. Many threads start servers while the host forks children of its own; each
/// server has 0, 1 and 2, and sees the end of its input as soon as its host closes it.
#[test]
fn sp_07_no_descriptor_leaks_into_a_sibling() {
    alone!(&[AS_IT_IS], |_| {});
    let forks = std::thread::spawn(|| {
        let sleep = || {
            let mut command = Command::new("/bin/sleep");
            command.arg("600").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            Sleeper(command.spawn().unwrap())
        };
        (0..100).map(|_| sleep()).collect::<Vec<_>>()
    });
    let starters: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(|| {
                let mut host = Host::new();
                let peers: Vec<u64> =
                    (0..12).map(|_| host.launch(&Spec::modern(&[]).stop_grace(60_000, 60_000))).collect();
                for peer in &peers {
                    let id = host.ask_tool(*peer, "fds", json!({}));
                    let fds: BTreeMap<String, String> = serde_json::from_str(&host.completion(id).tool_text()).unwrap();
                    assert_eq!(fds.keys().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "2"], "{fds:?}");
                }
                for peer in peers {
                    assert_eq!(host.close(peer), 0);
                    host.to_the_end(peer);
                    // It left at its end of input: nobody else held the other end.
                    let close = host.last_close();
                    assert_eq!((close.peer, close.exit_code, close.signal), (peer, 0, 0));
                }
            })
        })
        .collect();
    starters.into_iter().for_each(|starter| starter.join().unwrap());
    drop(forks.join().unwrap());
}

fn limit(resource: u32, to: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { libc::getrlimit(resource, &raw mut limit) }, 0);
    limit.rlim_cur = to.min(limit.rlim_max);
    // SAFETY: the struct is initialised.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// The kind: the system has no more. Whichever descriptor of a handle, of a start or of a restart it is that cannot be had, or no
/// process: the number is told, what was half made is undone, and it works again when there is room.
#[test]
fn sp_12_no_descriptors_and_no_processes_left() {
    alone!();
    let before = open_descriptors() as u64;
    // The handle itself.
    let mut made = false;
    for room in 0..12 {
        limit(libc::RLIMIT_NOFILE, before - 1 + room);
        let mut handle = std::ptr::null_mut();
        let mut why = [0; 256];
        // SAFETY: places for the handle and the text.
        let status = unsafe { mcp_supervised_new(std::ptr::null(), &mut handle, why.as_mut_ptr(), why.len()) };
        limit(libc::RLIMIT_NOFILE, 1_024);
        if status == 0 {
            made = true;
            // SAFETY: a live handle.
            assert_eq!(unsafe { mcp_supervised_free(handle) }, 0);
        } else {
            // SAFETY: the text is NUL-terminated.
            let text = unsafe { std::ffi::CStr::from_ptr(why.as_ptr()) }.to_str().unwrap();
            assert_eq!(status, MCP_SUPERVISED_E_IO as i32, "{text}");
            says(text, &["24"]);
        }
        assert_eq!(open_descriptors() as u64, before, "with room for {room}");
    }
    assert!(made);
    // A start, and a restart.
    let mut host = Host::with_manual_clock().stepwise();
    let peer = host.add(&Spec::modern(&[]).restart(20, 100, 60_000));
    let idle = open_descriptors() as u64;
    let mut room = 0;
    loop {
        limit(libc::RLIMIT_NOFILE, idle - 1 + room);
        let status = host.start(peer);
        limit(libc::RLIMIT_NOFILE, 1_024);
        if status == 0 {
            break;
        }
        assert_eq!(status, SPAWN);
        says(&host.last_error(), &["(24)"]);
        assert_eq!((open_descriptors() as u64, children().len()), (idle, 0));
        room += 1;
    }
    assert!(room >= 3, "{room}");
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    for room in 0..3 {
        limit(libc::RLIMIT_NOFILE, idle - 1 + room);
        host.advance_ms(100);
        let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
        limit(libc::RLIMIT_NOFILE, 1_024);
        assert_eq!((error.status, error.will_reconnect()), (SPAWN, true));
        says(&error.text(), &["(24)"]);
        assert_eq!((open_descriptors() as u64, children().len()), (idle, 0));
    }
    host.advance_ms(100);
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_RECONNECT).attempt, 4);
    let id = host.ask_tool(peer, "pid", json!({}));
    assert_eq!(host.completion(id).tool_text(), host.pid(peer).to_string());
    drop(host);

    // No process: whoever may start as many as he likes becomes somebody who may not.
    // SAFETY: plain system calls; a number of a user that is nobody's.
    unsafe {
        if libc::geteuid() == 0 && libc::syscall(libc::SYS_setresuid, 65_533, 65_533, 65_533) != 0 {
            println!("skipped: no other user can be had");
            return;
        }
    }
    let mut host = Host::new();
    let peer = host.add(&Spec::new("/bin/cat").mode(MCP_SUPERVISED_MODE_RAW));
    limit(libc::RLIMIT_NPROC, 0);
    assert_eq!(host.start(peer), SPAWN);
    says(&host.last_error(), &["(11)"]);
    assert_eq!(children(), [] as [i32; 0]);
    limit(libc::RLIMIT_NPROC, 1_000_000);
    assert_eq!(host.start(peer), 0, "{}", host.last_error());
    assert_eq!(host.send(peer, note("a")), 1);
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_MESSAGE).text(), note("a"));
}
