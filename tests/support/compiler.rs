//! Small C and C++ programs that a test writes, compiles with every warning an error, and links with the shared library of this
//! very build. `c.rs` is for whole hosts that may hang.

#![allow(dead_code, reason = "each test file uses its part")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the committed header lies.
pub fn include_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// An empty directory of this test's own, below the build's.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("the target directory can be written");
    dir
}

/// The shared library that was built together with this test. It lies beside the test, in whatever profile and target
/// directory that is; the copy one level up may be of an older build.
pub fn shared_library() -> PathBuf {
    let test = env::current_exe().expect("the test knows itself");
    let deps = test.parent().expect("a file lies somewhere");
    let name = "libmcp_supervised.so";
    [Some(deps), deps.parent()]
        .into_iter()
        .flatten()
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!("there is no {name} beside {} and none above: cargo build --lib makes it", test.display())
        })
}

/// The C compiler of this machine.
pub fn cc() -> String {
    env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// The C++ compiler of this machine.
pub fn cxx() -> String {
    env::var("CXX").unwrap_or_else(|_| "c++".to_owned())
}

/// Runs a program to its end, which must be a good one, and gives what it wrote to stdout.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// More options for the compiler, with blanks between them: `./tests/all --sanitize` has hosts checked by it.
const MORE_OPTIONS: &str = "MCP_SUPERVISED_TEST_CFLAGS";

/// A compiler call with every warning an error.
pub fn strict(compiler: &str, standard: &str) -> Command {
    let mut command = Command::new(compiler);
    command.args(env::var(MORE_OPTIONS).unwrap_or_default().split_whitespace());
    command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg("-I").arg(include_dir());
    command
}

/// Whether a tool that only some hosts need is there. In CI it has to be: a test that is skipped there tests nothing.
pub fn have(tool: &str, arguments: &[&str]) -> bool {
    let is_there = Command::new(tool).args(arguments).output().is_ok_and(|output| output.status.success());
    if !is_there {
        assert_ne!(env::var("CI").as_deref(), Ok("true"), "{tool} {arguments:?} fails");
        println!("skipped: {tool} {arguments:?} fails");
    }
    is_there
}

/// Makes a linked program find the library of this build.
pub fn link(command: &mut Command, dir: &Path) {
    // The program asks for the SONAME, so a link of that name lies beside it.
    let library = shared_library();
    let named = dir.join("libmcp_supervised.so.0");
    let _ = fs::remove_file(&named);
    std::os::unix::fs::symlink(&library, &named).expect("a link can be made");
    command.arg(&library).arg(format!("-Wl,-rpath,{}", dir.display()));
}
