//! What the shared library shows to a linker and a loader.

#[path = "support/compiler.rs"]
mod compiler;

use std::fs;
use std::process::Command;

/// The interface, one function a line, sorted. A test of bad input has a row for each.
const EXPORTS: &str = include_str!("support/exports.txt");

#[test]
fn exactly_the_pinned_functions_are_exported() {
    let listed = compiler::run(
        Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(compiler::shared_library()),
    );
    let mut found: Vec<(&str, &str)> = listed
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect();
    found.sort_unstable();
    let pinned: Vec<(&str, &str)> = EXPORTS.lines().map(|name| (name, "T")).collect();
    assert!(pinned.is_sorted());
    assert_eq!(found, pinned, "tests/support/exports.txt lists the interface");
}

#[test]
fn the_library_has_its_name_and_needs_only_the_system() {
    let listed = compiler::run(Command::new("readelf").args(["-d", "--wide"]).arg(compiler::shared_library()));
    let in_brackets = |tag: &str| -> Vec<&str> {
        listed
            .lines()
            .filter(|line| line.contains(tag))
            .filter_map(|line| line.split_once('[')?.1.split(']').next())
            .collect()
    };
    // cargo-c brings a name of its own.
    if !cfg!(feature = "capi") {
        assert_eq!(in_brackets("(SONAME)"), ["libmcp_supervised.so.0"]);
    }
    let flags = listed.lines().find(|line| line.contains("(FLAGS_1)")).expect("FLAGS_1 is there");
    assert!(flags.split_whitespace().any(|flag| flag == "NODELETE"), "{flags}");
    let needed = in_brackets("(NEEDED)");
    assert!(!needed.is_empty());
    for library in needed {
        let system = ["libgcc_s.so.1", "libc.so.6", "libm.so.6"].contains(&library) || library.starts_with("ld-linux");
        assert!(system, "{library} is needed");
    }
    assert!(!listed.contains("(RPATH)") && !listed.contains("(RUNPATH)"), "{listed}");
}

/// A host that loads the library twice. Between the two a handle lived and was freed; the second life must work as the first,
/// which an unloaded library with destructors left behind would not.
const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <mcp_supervised.h>

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) fprintf(stderr, "%s\n", dlerror());
    return found;
}

static int once(const char *path)
{
    int32_t (*make)(const mcp_supervised_config *, mcp_supervised **, char *, size_t);
    int32_t (*poll_it)(mcp_supervised *, mcp_supervised_event *, size_t, size_t, int32_t);
    int32_t (*wake)(mcp_supervised *);
    int32_t (*end)(mcp_supervised *);
    const char *(*version)(void);
    void *symbol, *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    mcp_supervised *handle = NULL;
    mcp_supervised_event event;

    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
    /* ISO C has no cast from an object pointer to a function pointer. */
#define GET(function, name) \
    if (!(symbol = find(library, name))) return 2; \
    memcpy(&function, &symbol, sizeof symbol)
    GET(make, "mcp_supervised_new");
    GET(poll_it, "mcp_supervised_poll");
    GET(wake, "mcp_supervised_wakeup");
    GET(end, "mcp_supervised_free");
    GET(version, "mcp_supervised_version");
    if (strcmp(version(), MCP_SUPERVISED_VERSION) != 0) return 3;
    if (make(NULL, &handle, NULL, 0) < 0) return 4;
    if (wake(handle) < 0) return 5;
    if (poll_it(handle, &event, sizeof event, 1, 10000) != 1) return 6;
    if (event.kind != MCP_SUPERVISED_EVENT_WAKEUP) return 7;
    if (end(handle) < 0) return 8;
    return dlclose(library) == 0 ? 0 : 9;
}

int main(int count, char **words)
{
    int first;
    if (count != 2) return 99;
    first = once(words[1]);
    return first ? first : once(words[1]) * 10;
}
"#;

#[test]
fn the_library_can_be_loaded_closed_and_loaded_again() {
    let dir = compiler::scratch("exports_loader");
    fs::write(dir.join("loader.c"), LOADER).unwrap();
    let mut build = compiler::strict(&compiler::cc(), "c99");
    compiler::run(build.args(["loader.c", "-o", "loader", "-ldl"]).current_dir(&dir));
    compiler::run(Command::new(dir.join("loader")).arg(compiler::shared_library()));
}
