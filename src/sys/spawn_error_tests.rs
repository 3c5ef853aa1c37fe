//! What the host is told when a child does not start, and that nothing is left behind then.

use super::*;
use crate::sys::testing::{
    Scratch, command, every_way, every_way_with_directories, finish, has_children, in_subprocess, open_descriptors,
    read_all, refused, shell, start, text,
};

fn set_limit(soft: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place for the answer.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(answer, 0);
    limit.rlim_cur = soft;
    // SAFETY: a valid structure; only called in a process of its own.
    let answer = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(answer, 0);
}

#[test]
fn sp01_a_missing_command_is_named() {
    let scratch = Scratch::new();
    scratch.file("plain", "644", "");
    for features in every_way() {
        for program in ["no-such-program", "./no-such-program", "/no/such/program", ""] {
            let error = refused(&command(program, &[]), &features);
            assert!(matches!(error, SpawnError::CommandNotFound { .. }), "{program}: {error:?}");
            assert_eq!(error.errno(), libc::ENOENT);
            assert!(error.to_string().contains(if program.is_empty() { "empty" } else { program }), "{error}");
        }
        let below_a_file = scratch.name("plain/x");
        let error = refused(&command(&below_a_file, &[]), &features);
        assert!(matches!(error, SpawnError::CommandNotFound { errno: libc::ENOTDIR, .. }), "{error:?}");
        let mut nowhere = command("sh", &[]);
        nowhere.env = [].into();
        let error = refused(&nowhere, &features);
        assert!(error.to_string().contains("there is no PATH"), "{error}");
    }
}

#[test]
fn sp02_a_bad_directory_is_named_and_not_the_command() {
    let scratch = Scratch::new();
    let file = scratch.file("plain", "644", "");
    for features in every_way_with_directories() {
        if !features.addfchdir {
            continue;
        }
        let mut command = shell("exit 0");
        let mut of = |directory: &str| {
            command.cwd = Some(text(directory));
            refused(&command, &features)
        };
        let missing = scratch.name("missing");
        let error = of(&missing);
        assert!(
            matches!(&error, SpawnError::DirectoryMissing { directory, errno: libc::ENOENT } if *directory == missing)
        );
        assert!(error.to_string().contains(&missing) && !error.to_string().contains("/bin/sh"), "{error}");
        assert!(matches!(of(&file), SpawnError::DirectoryNotADirectory { errno: libc::ENOTDIR, .. }));
        assert!(matches!(of(""), SpawnError::DirectoryMissing { .. }));
        let circle = scratch.name("circle");
        let _ = std::os::unix::fs::symlink(&circle, &circle);
        let error = of(&circle);
        assert!(
            matches!(error, SpawnError::DirectoryNotAccessible { .. } | SpawnError::DirectoryNotADirectory { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn sp02_a_directory_without_search_permission() {
    in_subprocess!({
        let scratch = Scratch::new();
        scratch.directory("closed");
        let status = std::process::Command::new("chmod").args(["000", &scratch.name("closed")]).status();
        assert!(status.unwrap().success());
        // The user that may do everything would be let in.
        // SAFETY: takes a number; only in a process of its own.
        let _ = unsafe { libc::seteuid(65534) };
        let mut command = shell("exit 0");
        command.cwd = Some(text(&scratch.name("closed")));
        let features = Features::detect();
        if features.addfchdir {
            let error = refused(&command, &features);
            assert!(matches!(error, SpawnError::DirectoryNotAccessible { errno: libc::EACCES, .. }), "{error:?}");
        }
        // SAFETY: as above.
        let _ = unsafe { libc::seteuid(libc::getuid()) };
    });
}

#[test]
fn a_directory_without_the_means_is_unsupported() {
    let mut command = shell("exit 0");
    command.cwd = Some(text("/"));
    let error = refused(&command, &Features { addfchdir: false, ..Features::detect() });
    assert!(matches!(error, SpawnError::Unsupported { .. }), "{error:?}");
}

#[test]
fn sp03_files_that_cannot_be_run() {
    let scratch = Scratch::new();
    let plain = scratch.file("plain", "644", "#!/bin/sh\n");
    let no_line = scratch.file("no-line", "755", "echo hello\n");
    let hollow = scratch.file("hollow", "755", "");
    let orphan = scratch.file("orphan", "755", "#!/no/such/interpreter\n");
    scratch.directory("folder");
    let folder = scratch.name("folder");
    for features in every_way() {
        let of = |program: &str| refused(&command(program, &[]), &features);
        assert!(matches!(of(&plain), SpawnError::NotExecutable { errno: libc::EACCES, .. }));
        assert!(matches!(of(&no_line), SpawnError::NotExecutable { errno: libc::ENOEXEC, .. }));
        assert!(matches!(of(&hollow), SpawnError::NotExecutable { errno: libc::ENOEXEC, .. }));
        assert!(matches!(of(&orphan), SpawnError::InterpreterMissing { errno: libc::ENOENT, .. }));
        assert!(matches!(of(&folder), SpawnError::IsDirectory { errno: libc::EACCES, .. }));
        for file in [&plain, &no_line, &hollow, &orphan, &folder] {
            assert!(of(file).to_string().contains(file.as_str()));
        }
        let long_name = "x".repeat(300);
        let error = of(&format!("./{long_name}"));
        assert!(matches!(error, SpawnError::Other { errno: libc::ENAMETOOLONG, .. }), "{error:?}");
    }
}

#[test]
fn sp03_arguments_too_long_and_never_repeated() {
    for features in every_way() {
        let mut command = shell("exit 0");
        command.args.push(text(&"secret".repeat(40_000)));
        let error = refused(&command, &features);
        assert!(matches!(error, SpawnError::ArgumentsTooLong { errno: libc::E2BIG, .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}

#[test]
fn sp12_running_out_of_descriptors_leaves_nothing_behind() {
    in_subprocess!({
        for features in every_way_with_directories() {
            for mode in [StderrMode::Pipe, StderrMode::Inherit, StderrMode::Null] {
                let mut command = shell("exit 0");
                command.stderr = mode;
                command.cwd = features.addfchdir.then(|| text("/"));
                let before = open_descriptors();
                // A copy of anything tells the lowest free number.
                let lowest = libc::rlim_t::try_from(pipe().unwrap().0.as_raw_fd()).unwrap();
                let mut failures = 0;
                for limit in lowest.. {
                    set_limit(limit);
                    let result = spawn(&command, &features);
                    set_limit(1024);
                    match result {
                        Ok(child) => {
                            let mut process = child.process;
                            drop(child.stdin);
                            let _ = finish(&mut process);
                            break;
                        }
                        Err(error) => {
                            assert!(matches!(error, SpawnError::Descriptors { errno: libc::EMFILE, .. }), "{error:?}");
                            failures += 1;
                        }
                    }
                    assert_eq!(open_descriptors(), before);
                    assert!(!has_children());
                }
                assert!(failures >= 5, "each one can fail: {failures}");
                assert_eq!(open_descriptors(), before);
            }
        }
    });
}

#[test]
fn sp12_a_child_that_cannot_be_watched_is_not_left_alive() {
    in_subprocess!({
        let unwatched = Features { pidfd: false, ..Features::detect() };
        let child = start(&shell("sleep 1000"), &unwatched);
        let pid = child.process.pid();
        let mut watched = Features { pidfd: true, ..unwatched };
        set_limit(3);
        let result = Process::adopt(pid, &watched);
        set_limit(1024);
        if !watched.pidfd_usable() {
            // This system has no such descriptors, so nothing could be tried. Clean up.
            watched.pidfd = false;
            let _ = Process::adopt(pid, &watched).unwrap().signal_group(libc::SIGKILL);
            return;
        }
        assert_eq!(result.unwrap_err().errno, libc::EMFILE);
        assert!(!has_children());
        assert_eq!(read_all(child.stdout.as_fd()), "");
    });
}

#[test]
fn sp12_no_more_processes() {
    in_subprocess!({
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: takes a number; only in a process of its own. The limit does not bind the user that may do everything.
        let _ = unsafe { libc::setuid(65533) };
        // SAFETY: a valid structure.
        let answer = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) };
        assert_eq!(answer, 0);
        let before = open_descriptors();
        let error = refused(&shell("exit 0"), &Features::detect());
        assert!(matches!(error, SpawnError::Resources { errno: libc::EAGAIN, .. }), "{error:?}");
        assert_eq!(open_descriptors(), before);
    });
}

#[test]
fn failures_leave_no_descriptor_and_no_child() {
    in_subprocess!({
        let scratch = Scratch::new();
        let orphan = scratch.file("orphan", "755", "#!/no/such/interpreter\n");
        let before = open_descriptors();
        for features in every_way_with_directories() {
            for program in ["no-such-program", "/no/such/program", "/", orphan.as_str()] {
                let mut command = command(program, &[]);
                command.stderr = StderrMode::Pipe;
                command.cwd = features.addfchdir.then(|| text("/"));
                let _ = refused(&command, &features);
                command.cwd = Some(text("/no/such/directory"));
                let _ = refused(&command, &features);
            }
        }
        assert_eq!(open_descriptors(), before);
        assert!(!has_children());
    });
}
