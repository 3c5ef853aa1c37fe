//! What a child finds when it starts.

use super::*;
use crate::sys::testing::{
    Scratch, command, every_way, every_way_with_directories, finish, flags_of, has_children, in_subprocess,
    open_descriptors, output, read_all, read_line, refused, run_again, shell, start, text,
};
use crate::sys::{Exit, Peek};

/// What a child lists as its descriptors: 0, 1, 2 and, where the rest cannot be closed, what the host itself made inheritable.
fn listing(features: &Features) -> String {
    let mut numbers = vec!["0".to_owned(), "1".to_owned(), "2".to_owned()];
    if !features.closefrom {
        for number in 3..1024 {
            // SAFETY: takes no argument.
            if unsafe { libc::fcntl(number, libc::F_GETFD) } == 0 {
                numbers.push(number.to_string());
            }
        }
    }
    numbers.sort();
    numbers.iter().map(|number| format!("{number}\n")).collect()
}

fn close_number(number: i32) {
    // SAFETY: only called in a process of its own that does not use the number any more.
    let _ = unsafe { libc::close(number) };
}

#[test]
fn the_streams_are_connected() {
    for features in every_way() {
        let mut command = shell("read line; echo out $line; echo err $line >&2; exit 7");
        command.stderr = StderrMode::Pipe;
        let mut child = start(&command, &features);
        let said = crate::sys::writev_nosignal(child.stdin.as_fd(), &[std::io::IoSlice::new(b"hi\n")], &features);
        assert_eq!(said.unwrap(), 3);
        assert_eq!(read_all(child.stdout.as_fd()), "out hi\n");
        assert_eq!(read_all(child.stderr.as_ref().unwrap().as_fd()), "err hi\n");
        assert_eq!(finish(&mut child.process), Exit::Code(7));
    }
}

#[test]
fn only_our_ends_do_not_block() {
    let mut command = shell("cat /proc/self/fdinfo/0; cat /proc/$$/fdinfo/1 /proc/$$/fdinfo/2");
    command.stderr = StderrMode::Pipe;
    let child = start(&command, &Features::detect());
    for end in [&child.stdin, &child.stdout, child.stderr.as_ref().unwrap()] {
        let (descriptor, file) = flags_of(end.as_fd());
        assert_eq!(descriptor, libc::FD_CLOEXEC);
        assert_eq!(file & libc::O_NONBLOCK, libc::O_NONBLOCK);
    }
    let said = read_all(child.stdout.as_fd());
    let flags: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("flags:")).collect();
    assert_eq!(flags.len(), 3, "{said}");
    for flag in flags {
        let flag = i32::from_str_radix(flag.trim(), 8).unwrap();
        assert_eq!(flag & libc::O_NONBLOCK, 0, "{said}");
    }
    let mut process = child.process;
    assert_eq!(finish(&mut process), Exit::Code(0));
}

#[test]
fn the_child_has_three_descriptors() {
    in_subprocess!({
        // What a careless host has: inheritable descriptors all over the place.
        for number in [5, 9, 17] {
            // SAFETY: takes two numbers.
            let answer = unsafe { libc::dup2(0, number) };
            assert_eq!(answer, number);
        }
        for features in every_way() {
            let (said, exit) = output(&shell("LC_ALL=C ls /proc/$$/fd; exit 0"), &features);
            assert_eq!(exit, Exit::Code(0));
            assert_eq!(said, listing(&features));
        }
    });
}

#[test]
fn a_host_without_standard_descriptors_can_start() {
    for mode in ["null", "inherit", "pipe"] {
        run_again("sys::spawn::tests::without_standard_descriptors", &[("MCP_SUPERVISED_TEST_MODE", mode)]);
    }
}

#[test]
fn without_standard_descriptors() {
    let Ok(mode) = std::env::var("MCP_SUPERVISED_TEST_MODE") else {
        return;
    };
    for number in 0..3 {
        close_number(number);
    }
    for features in every_way() {
        let mut command = shell("LC_ALL=C ls /proc/$$/fd; cat; echo lost >&2");
        command.stderr = match mode.as_str() {
            "null" => StderrMode::Null,
            "inherit" => StderrMode::Inherit,
            _ => StderrMode::Pipe,
        };
        let Child { mut process, stdin, stdout, stderr } = start(&command, &features);
        assert!(stdin.as_raw_fd() > 2 && stdout.as_raw_fd() > 2);
        let sent = crate::sys::writev_nosignal(stdin.as_fd(), &[std::io::IoSlice::new(b"there\n")], &features);
        assert_eq!(sent.unwrap(), 6);
        drop(stdin);
        assert_eq!(read_all(stdout.as_fd()), format!("{}there\n", listing(&features)));
        if let Some(stderr) = stderr {
            assert_eq!(read_all(stderr.as_fd()), "lost\n");
        }
        assert_eq!(finish(&mut process), Exit::Code(0));
    }
}

#[test]
fn stderr_goes_where_it_should() {
    in_subprocess!({
        let (reading, writing) = pipe().unwrap();
        // SAFETY: takes two numbers.
        let second = unsafe { libc::dup3(writing.as_raw_fd(), 2, libc::O_CLOEXEC) };
        assert_eq!(second, 2);
        drop(writing);
        for features in every_way() {
            let mut command = shell("echo nowhere >&2");
            assert_eq!(output(&command, &features).1, Exit::Code(0));
            command = shell("echo inherited >&2");
            command.stderr = StderrMode::Inherit;
            assert_eq!(output(&command, &features).1, Exit::Code(0));
            assert_eq!(read_line(reading.as_fd()), "inherited");
        }
    });
}

#[test]
fn the_child_leads_its_own_group() {
    for features in every_way() {
        let child = start(&shell("read end"), &features);
        let mut process = child.process;
        // SAFETY: takes a number.
        let group = unsafe { libc::getpgid(process.pid()) };
        assert_eq!(group, process.pid(), "set by the time the spawn returns");
        drop(child.stdin);
        let _ = finish(&mut process);
    }
}

#[test]
fn signals_are_as_new() {
    in_subprocess!({
        for signal in [libc::SIGPIPE, libc::SIGTERM, libc::SIGUSR1, libc::SIGHUP, libc::SIGCHLD] {
            // SAFETY: a constant disposition, in a process of its own.
            let _ = unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        // SAFETY: all zeroes is a valid set.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: a valid set.
        let _ = unsafe { libc::sigfillset(&raw mut set) };
        // SAFETY: a valid set; the old one is not asked for.
        let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
        for features in every_way() {
            let child = start(&command("cat", &["/proc/self/status"]), &features);
            let said = read_all(child.stdout.as_fd());
            let mask = |name: &str| {
                let line = said.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                // 32 and 33 belong to the C library, which keeps them to itself.
                u64::from_str_radix(line.trim(), 16).unwrap() & !0x1_8000_0000
            };
            assert_eq!([mask("SigBlk:"), mask("SigIgn:"), mask("SigCgt:")], [0, 0, 0], "{said}");
        }
    });
}

#[test]
fn arguments_and_environment_arrive_unchanged() {
    let script = r#"printf '%s|' "$0" "$@"; exec env"#;
    let args = ["a b", "(x)", "$HOME", "*", "", "日本", "\"q\"", "line\nbreak"];
    for features in every_way() {
        let mut command = shell(script);
        command.args.push(text("zero"));
        command.args.extend(args.iter().map(|argument| text(argument)));
        command.args.push(c"\xff".to_owned());
        command.env = [text("A=b=c"), text("EMPTY=")].into();
        command.host_path = Some("/usr/bin:/bin".into());
        command.program = text("sh");
        let Child { mut process, stdin, stdout, .. } = start(&command, &features);
        drop(stdin);
        let mut said = Vec::new();
        let mut block = [0; 4096];
        while crate::sys::io::wait(stdout.as_fd(), libc::POLLIN, 30_000).unwrap() != 0 {
            match crate::sys::io::read(stdout.as_fd(), &mut block).unwrap() {
                0 => break,
                count => said.extend_from_slice(&block[..count]),
            }
        }
        let expected = [b"zero|a b|(x)|$HOME|*||".as_slice(), "日本|\"q\"|line\nbreak|".as_bytes(), b"\xff|"].concat();
        assert!(said.starts_with(&expected), "{}", String::from_utf8_lossy(&said));
        let environment = String::from_utf8(said[expected.len()..].to_vec()).unwrap();
        let variables: Vec<_> = environment.lines().collect();
        assert!(variables.contains(&"A=b=c") && variables.contains(&"EMPTY="), "{environment}");
        assert!(!environment.contains("HOME="));
        let _ = finish(&mut process);
    }
}

#[test]
fn sp04_one_path_and_no_third_place() {
    let scratch = Scratch::new();
    for place in ["mine", "host", "here", "here/sub", "blocked"] {
        scratch.directory(place);
    }
    for (place, mode) in [("mine", "755"), ("host", "755"), ("here", "755"), ("here/sub", "755"), ("blocked", "644")] {
        scratch.file(&format!("{place}/tool"), mode, &format!("#!/bin/sh\necho {place}\n"));
    }
    scratch.directory("blocked/folder");
    let of = |own: Option<&str>, host: Option<&str>| {
        let mut command = command("tool", &[]);
        command.env = own.map(|path| text(&format!("PATH={path}"))).into_iter().collect();
        command.host_path = host.map(Into::into);
        command
    };
    let [mine, host, blocked] = ["mine", "host", "blocked"].map(|place| scratch.name(place));
    for features in every_way_with_directories() {
        assert_eq!(output(&of(Some(&mine), Some(&host)), &features).0, "mine\n");
        assert_eq!(output(&of(None, Some(&host)), &features).0, "host\n");
        let error = refused(&of(Some("/no/where"), Some(&host)), &features);
        assert!(matches!(error, SpawnError::CommandNotFound { .. }), "the host's PATH is not a second try: {error}");
        // A file that may not be run is passed over, and reported only if nothing better follows.
        assert_eq!(output(&of(Some(&format!("{blocked}:{mine}")), None), &features).0, "mine\n");
        let error = refused(&of(Some(&format!("/no/where:{blocked}:/no/where")), None), &features);
        assert!(
            matches!(&error, SpawnError::NotExecutable { command, errno: libc::EACCES } if command.contains("blocked/tool"))
        );
        let mut folder = of(Some(&blocked), None);
        folder.program = text("folder");
        assert!(matches!(refused(&folder, &features), SpawnError::IsDirectory { .. }));
        if !features.addfchdir {
            continue;
        }
        let here = Some(text(&scratch.name("here")));
        for (path, expected) in [("", "here\n"), (":/no/where", "here\n"), ("/no:", "here\n"), ("sub", "here/sub\n")] {
            let mut command = of(Some(path), Some(&host));
            command.cwd.clone_from(&here);
            assert_eq!(output(&command, &features).0, expected, "PATH={path}");
        }
        let mut command = of(Some(&mine), None);
        command.cwd = here;
        command.program = text("sub/tool");
        assert_eq!(
            output(&command, &features).0,
            "here/sub\n",
            "a relative command is meant from the child's directory"
        );
    }
}

#[test]
fn the_child_is_in_its_directory() {
    let scratch = Scratch::new();
    for features in every_way_with_directories() {
        if features.addfchdir {
            let mut command = command("pwd", &["-P"]);
            command.cwd = Some(text(scratch.path().to_str().unwrap()));
            let expected = std::fs::canonicalize(scratch.path()).unwrap();
            assert_eq!(output(&command, &features).0.trim_end(), expected.to_str().unwrap());
        }
    }
}

#[test]
fn two_hundred_children_leave_nothing() {
    in_subprocess!({
        let before = open_descriptors();
        for round in 0..200 {
            let ways = every_way();
            let mut child = start(&command("/bin/true", &[]), &ways[round % ways.len()]);
            assert_eq!(finish(&mut child.process), Exit::Code(0));
            assert_eq!(child.process.reap(), Peek::Exited(Exit::Code(0)));
        }
        assert_eq!(open_descriptors(), before);
        assert!(!has_children());
    });
}

#[test]
fn sp07_children_started_at_the_same_time_hold_no_ends_of_each_other() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for features in every_way() {
                    let Child { mut process, stdin, stdout, .. } = start(&shell("cat; echo end"), &features);
                    drop(stdin);
                    assert_eq!(read_all(stdout.as_fd()), "end\n");
                    let _ = finish(&mut process);
                }
            });
        }
    });
}
