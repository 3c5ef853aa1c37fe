//! What a server is started with, and what is said when it cannot be (P1 to P3, P9). What is process-wide (environment, limits,
//! descriptors) is changed in a process of its own.

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use support::*;

/// The directory needs a newer C library, and so do children without the host's stray descriptors: not to be done without here.
const AS_IT_IS: (&str, Option<&str>) = ("MCP_SUPERVISED_WITHOUT", None);

/// What a reporting tool of a server says.
fn report(host: &mut Host, peer: u64, tool: &str, arguments: Value) -> Value {
    let id = format!("{tool}-{}", host.seen.len());
    host.call(peer, &id, tool, arguments);
    serde_json::from_str(&host.answer(&id).tool_text()).unwrap()
}

#[test]
fn p01_arguments_arrive_as_they_are() {
    let odd: [&[u8]; 15] = [
        b"a b",
        b"(x)",
        b"$HOME",
        b"*",
        b"",
        "日本".as_bytes(),
        b"\"q\"",
        b"'s'",
        b"new\nline",
        b"tab\t",
        b"`id`; rm -rf $(x) && | > <",
        b"\\",
        b"-n",
        b"--help",
        b"\xff\xfe",
    ];
    let mut host = Host::new();
    let spec = odd.iter().fold(Spec::demo(&["--"]), |spec, arg| spec.arg(arg));
    let peer = host.launch(&spec.restart(3, 0, 60_000));
    let mut expected = vec![demo_server().to_owned(), "--".to_owned()];
    expected.extend(odd[..14].iter().map(|arg| String::from_utf8_lossy(arg).into_owned()));
    expected.push("\\xff\\xfe".to_owned());
    assert_eq!(report(&mut host, peer, "args", json!({})), json!(expected));
    kill9(host.pid(peer));
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(report(&mut host, peer, "args", json!({})), json!(expected), "the same in the next life");
}

#[test]
fn p01_a_program_with_spaces_and_signs_in_its_path() {
    let scratch = Scratch::new();
    scratch.directory("a dir; $X");
    let program = scratch.link("a dir; $X/my server");
    let mut host = Host::new();
    let peer = host.launch(&Spec::new(&program).mode(MCP_SUPERVISED_MODE_RAW));
    assert_eq!(report(&mut host, peer, "args", json!({})), json!([program]));
}

const HOSTS_ENVIRONMENT: [(&str, Option<&str>); 16] = [
    AS_IT_IS,
    ("HOME", Some("/home/of tests")),
    ("LOGNAME", Some("l")),
    ("PATH", Some("/usr/bin:/bin")),
    ("SHELL", Some("/bin/sh")),
    ("TERM", Some("dumb")),
    ("USER", Some("u")),
    ("LANG", Some("() { :; }; echo")),
    ("LC_ALL", Some("C")),
    ("LC_TIME", Some("() { evil; }")),
    ("LC_", Some("x")),
    ("TMPDIR", Some("/tmp")),
    ("LANGUAGE", Some("de")),
    ("SECRET", Some("s3cret")),
    ("EMPTY", Some("")),
    ("A", Some("b=c")),
];

fn environment(host: &mut Host, spec: &Spec) -> BTreeMap<String, String> {
    let peer = host.launch(spec);
    serde_json::from_value(report(host, peer, "env", json!({}))).unwrap()
}

#[test]
fn p01_environment_modes_additions_and_replacements() {
    alone!(&HOSTS_ENVIRONMENT, |_| {});
    let mut host = Host::new();
    let demo = || Spec::demo(&[]);

    let safe = environment(&mut host, &demo());
    let expected: BTreeMap<String, String> = [
        ("HOME", "/home/of tests"),
        ("LC_", "x"),
        ("LC_ALL", "C"),
        ("LOGNAME", "l"),
        ("PATH", "/usr/bin:/bin"),
        ("SHELL", "/bin/sh"),
        ("TERM", "dumb"),
        ("TMPDIR", "/tmp"),
        ("USER", "u"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert_eq!(safe, expected, "SAFE is the default: the list, less values that begin with ()");

    let inherited = environment(&mut host, &demo().env_mode(MCP_SUPERVISED_ENV_INHERIT));
    let own: BTreeMap<String, String> = std::env::vars().collect();
    assert_eq!(inherited, own);
    assert_eq!((&*inherited["SECRET"], &*inherited["EMPTY"], &*inherited["A"]), ("s3cret", "", "b=c"));

    let peer = host.launch(&demo().env_mode(MCP_SUPERVISED_ENV_EMPTY));
    assert_eq!(report(&mut host, peer, "env", json!({"raw": true})), json!([]));

    // Additions and replacements in each mode; the last of one name counts.
    let with = |spec: Spec| {
        spec.env("USER", "first").env("USER", "other").env("ADDED", "x=y").env("NOTHING", "").env("BYTES", b"\xfe\xff")
    };
    for mode in [MCP_SUPERVISED_ENV_SAFE, MCP_SUPERVISED_ENV_INHERIT, MCP_SUPERVISED_ENV_EMPTY] {
        let got = environment(&mut host, &with(demo()).env_mode(mode));
        assert_eq!((&*got["USER"], &*got["ADDED"], &*got["NOTHING"]), ("other", "x=y", ""));
        assert_eq!(got["BYTES"], "\\xfe\\xff");
    }
    let peer = host.launch(&with(demo()).env_mode(MCP_SUPERVISED_ENV_EMPTY));
    let block = report(&mut host, peer, "env", json!({"raw": true}));
    assert_eq!(block.as_array().unwrap().len(), 4, "each name once: {block}");
}

#[test]
fn p01_the_environment_is_captured_by_add() {
    alone!(&HOSTS_ENVIRONMENT, |_| {});
    let mut host = Host::new();
    let spec = Spec::demo(&[]).env_mode(MCP_SUPERVISED_ENV_INHERIT).restart(3, 0, 60_000);
    let peer = host.add(&spec);
    // SAFETY: this process runs this test alone, and the harness reads no environment meanwhile.
    unsafe { std::env::set_var("SECRET", "changed") };
    // SAFETY: as above.
    unsafe { std::env::remove_var("PATH") };
    assert_eq!(host.start(peer), 0);
    for _ in 0..3 {
        let value = |host: &mut Host, name: &str| report(host, peer, "env", json!({"name": name}));
        assert_eq!(value(&mut host, "SECRET"), "s3cret");
        assert_eq!(value(&mut host, "PATH"), "/usr/bin:/bin");
        kill9(host.pid(peer));
        host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    }
    let later = environment(&mut host, &spec);
    assert_eq!(later["SECRET"], "changed");
    assert!(!later.contains_key("PATH"));
}

/// Scripts of one name in several directories, each telling which one it is.
fn tools(scratch: &Scratch, directories: &[&str]) {
    for directory in directories {
        scratch.directory(directory);
        let script = format!("#!/bin/sh\nexec '{}' -- {directory}\n", demo_server());
        scratch.file(&format!("{directory}/tool"), "755", &script);
    }
}

/// Which of them was started, twice.
fn which(host: &mut Host, spec: Spec) -> String {
    let peer = host.launch(&spec.mode(MCP_SUPERVISED_MODE_RAW).restart(3, 0, 60_000));
    let first = report(host, peer, "args", json!({}));
    kill9(host.pid(peer));
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(report(host, peer, "args", json!({})), first, "the same at every restart");
    first[2].as_str().unwrap().to_owned()
}

#[test]
fn p01_which_path_finds_the_program() {
    alone!(&HOSTS_ENVIRONMENT, |_| {});
    let scratch = Scratch::new();
    tools(&scratch, &["a", "b", "cwd"]);
    // SAFETY: this process runs this test alone.
    unsafe { std::env::set_var("PATH", scratch.name("b")) };
    let mut host = Host::new();
    let tool = || Spec::new("tool");
    let empty = || tool().env_mode(MCP_SUPERVISED_ENV_EMPTY);
    assert_eq!(which(&mut host, tool().env("PATH", scratch.name("a"))), "a", "the child's own");
    assert_eq!(which(&mut host, tool()), "b", "which SAFE took from the host");
    assert_eq!(which(&mut host, empty()), "b", "the host's, where the child has none");
    let several = format!("/nowhere:{}:{}", scratch.name("a"), scratch.name("b"));
    assert_eq!(which(&mut host, empty().env("PATH", several)), "a", "the first that has it");
    // Entries that are empty or relative are meant from the child's directory.
    assert_eq!(which(&mut host, empty().env("PATH", "").cwd(scratch.name("cwd"))), "cwd");
    assert_eq!(which(&mut host, empty().env("PATH", "/nowhere:../a").cwd(scratch.name("cwd"))), "a");

    // The child's PATH is the only one that is searched, if it has one.
    let peer = host.add(&empty().env("PATH", scratch.name("elsewhere")));
    assert_eq!(host.start(peer), MCP_SUPERVISED_E_SPAWN as i32);
    assert!(host.last_error().contains("tool") && host.last_error().contains("PATH"), "{}", host.last_error());
    // SAFETY: as above.
    unsafe { std::env::remove_var("PATH") };
    let peer = host.add(&empty());
    assert_eq!(host.start(peer), MCP_SUPERVISED_E_SPAWN as i32);
    assert!(host.last_error().contains("PATH"), "in neither: {}", host.last_error());
}

#[test]
fn p01_a_relative_path_is_taken_from_the_childs_directory() {
    alone!(&[AS_IT_IS], |_| {});
    let scratch = Scratch::new();
    tools(&scratch, &["a", "a/b"]);
    let mut host = Host::new();
    let at = |program: &str, cwd: &str| Spec::new(program).cwd(scratch.name(cwd));
    assert_eq!(which(&mut host, at("./tool", "a")), "a");
    assert_eq!(which(&mut host, at("b/tool", "a")), "a/b");
    assert_eq!(which(&mut host, at("../tool", "a/b")), "a");
    let peer = host.launch(&Spec::demo(&[]).cwd(scratch.name("a")));
    host.call(peer, "cwd", "cwd", json!({}));
    assert_eq!(host.answer("cwd").tool_text(), scratch.path().canonicalize().unwrap().join("a").to_str().unwrap());
}

#[test]
fn p02_every_failure_is_named() {
    alone!(&[AS_IT_IS], |_| {});
    let scratch = Scratch::new();
    let directory = scratch.directory("directory");
    let plain = scratch.file("plain", "644", "#!/bin/sh\n");
    let no_shebang = scratch.file("no-shebang", "755", "echo hello\n");
    let bad = scratch.file("bad-interpreter", "755", "#!/no/such/interpreter\n");
    let missing = scratch.name("missing");
    let server = scratch.link("server");
    let here = |name: &str| Spec::new(name);
    let cases: Vec<(Spec, Vec<&str>)> = vec![
        (here("no-such-program-here"), vec!["command not found", "no-such-program-here", "(2)"]),
        (here(&missing), vec!["command not found", &missing, "(2)"]),
        (here(&format!("{plain}/x")), vec!["command not found", "plain/x", "(20)"]),
        (here("./x").cwd(scratch.path().to_str().unwrap()), vec!["command not found", "./x", "(2)"]),
        (here(&plain), vec!["not executable", &plain, "(13)"]),
        (here(&directory), vec!["is a directory", &directory, "(13)"]),
        (here(&no_shebang), vec!["not executable", &no_shebang, "(8)"]),
        (here(&bad), vec!["interpreter", &bad, "(2)"]),
        (here(&server).cwd(&missing), vec!["working directory missing", &missing, "(2)"]),
        (here(&server).cwd(&plain), vec!["working directory", "not a directory", &plain, "(20)"]),
        (here(&server).arg("x".repeat(3 << 20)), vec!["too long", &server, "(7)"]),
        (here(&server).env("X", "x".repeat(3 << 20)), vec!["too long", &server, "(7)"]),
    ];
    let mut host = Host::new();
    let before = open_descriptors();
    for (spec, words) in &cases {
        let peer = host.add(spec);
        assert_eq!(host.start(peer), MCP_SUPERVISED_E_SPAWN as i32, "{words:?}");
        let text = host.last_error();
        assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
        assert!(text.len() < 1_000, "{text}");
        assert_eq!((host.state(peer), host.pid(peer)), (MCP_SUPERVISED_STATE_IDLE as i32, 0));
        assert_eq!(open_descriptors(), before, "{words:?}");
        assert_eq!(children(), [] as [i32; 0], "nobody is left that exits with 127");
        host.expect_silence();
        assert_eq!(host.remove(peer), 0);
    }
    // Behind the command of a missing directory there must be no word of a missing command.
    let peer = host.add(&here(&server).cwd(&missing));
    host.start(peer);
    assert!(!host.last_error().contains("command"), "{}", host.last_error());
    // The host goes on.
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "a", "pid", json!({}));
    host.answer("a");
}

#[test]
fn p02_a_directory_that_is_removed_between_two_lives_is_named() {
    alone!(&[AS_IT_IS], |_| {});
    let scratch = Scratch::new();
    let directory = scratch.directory("gone soon");
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).cwd(&directory).restart(3, 1, 60_000));
    std::fs::remove_dir(&directory).unwrap();
    kill9(host.pid(peer));
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!((error.status, error.will_reconnect()), (MCP_SUPERVISED_E_SPAWN as i32, true));
    assert!(
        error.text().contains("working directory missing") && error.text().contains("gone soon"),
        "{}",
        error.text()
    );
}

fn set_descriptor_limit(to: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = to.min(limit.rlim_max);
    // SAFETY: the struct is initialised.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[test]
fn p02_no_descriptors_left_is_said_and_is_over_when_there_are_some() {
    alone!();
    let mut host = Host::new();
    // Whichever of the pipes, the null device or the pidfd it is that fails.
    let mut failed = 0;
    for stderr in [MCP_SUPERVISED_STDERR_LOG, MCP_SUPERVISED_STDERR_INHERIT, MCP_SUPERVISED_STDERR_NULL] {
        let peer = host.add(&Spec::demo(&[]).stderr(stderr));
        let before = open_descriptors();
        for more in 0..20 {
            set_descriptor_limit(before as u64 - 1 + more);
            let status = host.start(peer);
            let text = host.last_error();
            set_descriptor_limit(1_024);
            if status == 0 {
                assert!(more >= 3, "{more}");
                break;
            }
            failed += 1;
            assert_eq!(status, MCP_SUPERVISED_E_SPAWN as i32, "{text}");
            assert!(text.contains("descriptors") && text.contains("(24)"), "{text}");
            assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_IDLE as i32);
            assert_eq!(open_descriptors(), before, "with room for {more}");
            assert_eq!(children(), [] as [i32; 0], "with room for {more}");
        }
        assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_RUNNING as i32);
        let id = format!("{stderr:?}");
        host.call(peer, &id, "pid", json!({}));
        host.answer(&id);
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        assert_eq!(open_descriptors(), before);
    }
    assert!(failed > 9, "{failed}");
}

#[test]
fn p02_a_restart_without_descriptors_costs_budget_and_recovers() {
    alone!();
    let mut host = Host::with_manual_clock().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 100, 60_000));
    kill9(host.pid(peer));
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_CLOSE).attempt, 1);
    set_descriptor_limit(4);
    host.advance_ms(100);
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    set_descriptor_limit(1_024);
    assert_eq!((error.status, error.attempt, error.will_reconnect()), (MCP_SUPERVISED_E_SPAWN as i32, 2, true));
    assert!(error.text().contains("descriptors"), "{}", error.text());
    host.advance_ms(100);
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_RECONNECT).attempt, 2);
    host.call(peer, "a", "pid", json!({}));
    host.answer("a");
    assert_eq!(letters(&host.seen), "D C E R M");
}

/// The numbers a server has open.
fn descriptors(host: &mut Host, peer: u64) -> Vec<String> {
    report(host, peer, "fds", json!({})).as_object().unwrap().keys().cloned().collect()
}

/// Whether the server's own ends block, as those of any process started by a shell do.
fn stdio_blocks(pid: i32) -> bool {
    (0..3).all(|number| {
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        i32::from_str_radix(flags, 8).unwrap() & libc::O_NONBLOCK == 0
    })
}

#[test]
fn p03_a_server_gets_descriptors_0_1_2_and_nothing_else() {
    alone!(&[AS_IT_IS], |_| {});
    // What careless code of a host leaves open and inheritable.
    let null = std::fs::File::open("/dev/null").unwrap();
    for number in [50, 200, 1_000] {
        // SAFETY: an open descriptor, and a number that nothing uses.
        assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), number) }, number);
    }
    let mut host = Host::new();
    let peers: Vec<u64> = (0..4).map(|_| host.launch(&Spec::demo(&[]).restart(3, 0, 60_000))).collect();
    for life in 1..=2 {
        for &peer in &peers {
            assert_eq!(descriptors(&mut host, peer), ["0", "1", "2"]);
            assert!(stdio_blocks(host.pid(peer)));
        }
        if life == 1 {
            kill9(host.pid(peers[0]));
            host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        }
    }
    // No sibling holds the other end: each sees the end of its input at once.
    for &peer in &peers {
        assert_eq!(host.close(peer), 0);
        let last = host.to_the_end(peer).pop().unwrap();
        assert_eq!((last.exit_code, last.signal), (0, 0));
    }
}

#[test]
fn p03_own_group_default_signals_empty_mask() {
    alone!();
    // SAFETY: SIG_IGN is a valid disposition, and this process runs this test alone.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: a place for a set.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: the set was filled; the old one is not asked for.
    assert_eq!(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) }, 0);
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 0, 60_000));
    for life in 1..=2 {
        let told = report(&mut host, peer, "signals", json!({}));
        let pid = host.pid(peer);
        assert_eq!((&told["pid"], &told["pgid"]), (&json!(pid), &json!(pid)), "the leader of its own group");
        assert_eq!(told["ppid"], std::process::id());
        assert_eq!(told["SigBlk"], "0000000000000000");
        assert_eq!(told["ignored_at_start"], "0000000000000000", "SIGPIPE, which this host ignores, included");
        if life == 1 {
            kill9(pid);
            host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        }
    }
}

#[test]
fn p03_a_host_without_0_1_2() {
    alone!(&[AS_IT_IS], |_| {});
    for number in 0..3 {
        // SAFETY: nothing of this test uses them; what the harness prints is lost, its exit status is not.
        unsafe { libc::close(number) };
    }
    let mut host = Host::new().stepwise();
    for stderr in [MCP_SUPERVISED_STDERR_LOG, MCP_SUPERVISED_STDERR_INHERIT, MCP_SUPERVISED_STDERR_NULL] {
        let peer = host.launch(&Spec::demo(&[]).stderr(stderr).restart(3, 0, 60_000));
        for _ in 0..2 {
            assert_eq!(descriptors(&mut host, peer), ["0", "1", "2"]);
            for number in 0..3 {
                // SAFETY: takes two numbers.
                let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
                assert_eq!(flags, -1, "the library is not in the place of {number}");
            }
            kill9(host.pid(peer));
            host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        }
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
    }
    assert_eq!(host.free(), 0);
}

/// Whatever goes wrong, arguments and variables are not told.
#[test]
fn p09_no_argument_and_no_variable_is_logged() {
    const SECRET: &str = "s3cr3t-marker";
    let scratch = Scratch::new();
    let mut host = Host::with(|config| {
        // SAFETY: a live config.
        assert_eq!(unsafe { mcp_supervised_config_log_level(config, MCP_SUPERVISED_LOG_INFO as u32) }, 0);
    });
    let shape = |program: &str| {
        let spec = Spec::new(program).mode(MCP_SUPERVISED_MODE_RAW).restart(2, 1, 60_000).stop_grace(1, 1);
        spec.env("TOKEN", SECRET).env(SECRET, "x").arg("--name").arg(SECRET).arg("--ignore-eof").arg("--ignore-sigterm")
    };
    let mut errors = Vec::new();
    // Cannot be started; too long; dies; cannot be started again; killed by the ladder.
    for program in ["/no/such/program", "no-such-program", "/"] {
        let peer = host.add(&shape(program));
        assert_eq!(host.start(peer), MCP_SUPERVISED_E_SPAWN as i32);
        errors.push(host.last_error());
    }
    let long = host.add(&shape(demo_server()).env("LONG", SECRET.repeat(200_000)).arg(SECRET.repeat(20_000)));
    assert_eq!(host.start(long), MCP_SUPERVISED_E_SPAWN as i32);
    errors.push(host.last_error());
    let dying = host.launch(&shape(&scratch.link("server")));
    kill9(host.pid(dying));
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    host.call(dying, "g", "garbage", json!({}));
    host.answer("g");
    scratch.remove("server");
    kill9(host.pid(dying));
    host.to_the_end(dying);
    // Does not come to serve: what the library makes of its end is told as well.
    for mode in [MCP_SUPERVISED_MODE_AUTO, MCP_SUPERVISED_MODE_LEGACY] {
        let peer = host.launch(&shape(demo_server()).mode(mode).arg("--exit-at-start").arg("1"));
        host.to_the_end(peer);
    }
    assert!(host.seen.iter().any(|e| e.status == MCP_SUPERVISED_E_HANDSHAKE as i32));
    let stubborn = host.launch(&shape(demo_server()));
    assert_eq!(host.close(stubborn), 0);
    host.to_the_end(stubborn);
    assert!(host.seen.iter().any(|e| e.letter() == "LOG" && e.status != MCP_SUPERVISED_LOG_SERVER as i32));
    // All but what the server says of itself.
    errors.extend(host.seen.iter().filter(|e| !e.is(MCP_SUPERVISED_EVENT_MESSAGE)).map(Event::text));
    for text in errors {
        assert!(!text.contains(SECRET), "{text}");
    }
}
