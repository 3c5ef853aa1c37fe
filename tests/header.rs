//! The committed C header is the one that the sources make, and says the same as the Rust side does.

#[path = "support/compiler.rs"]
mod compiler;
mod support;

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::fmt::Write as _;
use std::fs;
use std::mem::{offset_of, size_of, size_of_val};

use mcp_supervised::ffi::GENERATED_HEADER;
use mcp_supervised::ffi::bytes::MCP_SUPERVISED_CSTR;
use mcp_supervised::ffi::version::*;
use support::*;

const UPDATE: &str = "MCP_SUPERVISED_UPDATE_HEADER";

#[test]
fn the_committed_header_is_the_generated_one() {
    let path = compiler::include_dir().join("mcp_supervised.h");
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        // In one step: the tests beside this one read the file.
        let new = compiler::scratch("header_new").join("mcp_supervised.h");
        fs::create_dir_all(compiler::include_dir()).unwrap();
        fs::write(&new, GENERATED_HEADER).unwrap();
        fs::rename(&new, &path).or_else(|_| fs::copy(&new, &path).map(drop)).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(GENERATED_HEADER.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| committed.lines().count().min(GENERATED_HEADER.lines().count())) + 1;
    assert!(
        committed == GENERATED_HEADER,
        "include/mcp_supervised.h is not what src/ffi makes, from line {line} on; refresh it with\n\
         {UPDATE}=1 cargo test --test header"
    );
}

#[test]
fn the_header_stands_alone_in_every_standard() {
    let dir = compiler::scratch("header_alone");
    // The second inclusion is there for the guard.
    let text = "#include <mcp_supervised.h>\n#include <mcp_supervised.h>\n\
                mcp_supervised_peer used(mcp_supervised_event *event);\n\
                mcp_supervised_peer used(mcp_supervised_event *event) { return event->peer; }\n";
    for (compiler, name, standards) in
        [(compiler::cc(), "alone.c", ["c99", "c11", "c17"]), (compiler::cxx(), "alone.cc", ["c++11", "c++17", "c++20"])]
    {
        fs::write(dir.join(name), text).unwrap();
        for standard in standards {
            compiler::run(compiler::strict(&compiler, standard).args(["-c", name, "-o", "alone.o"]).current_dir(&dir));
        }
    }
}

#[test]
fn two_units_of_one_cpp_program_include_it() {
    let dir = compiler::scratch("header_twice");
    let one = "#include <mcp_supervised.h>\n\
               int32_t other();\n\
               int main() { return mcp_supervised_abi_version() == MCP_SUPERVISED_ABI_VERSION ? other() : 1; }\n";
    let two = "#include <mcp_supervised.h>\n\
               int32_t other() { return mcp_supervised_free(nullptr) == MCP_SUPERVISED_OK ? 0 : 1; }\n";
    fs::write(dir.join("one.cc"), one).unwrap();
    fs::write(dir.join("two.cc"), two).unwrap();
    let mut build = compiler::strict(&compiler::cxx(), "c++11");
    build.args(["one.cc", "two.cc", "-o", "program"]).current_dir(&dir);
    compiler::link(&mut build, &dir);
    compiler::run(&mut build);
    compiler::run(&mut std::process::Command::new(dir.join("program")));
}

/// What a Rust type of the interface is called in C.
trait InC {
    const NAME: &'static str;
}

macro_rules! in_c {
    ($($rust:ty: $c:literal),* $(,)?) => { $(impl InC for $rust { const NAME: &'static str = $c; })* };
}

in_c!(u32: "uint32_t", u64: "uint64_t", i32: "int32_t", i64: "int64_t", usize: "size_t", *const c_char: "const char *");

fn name_in_c<T: InC>(_: T) -> &'static str {
    T::NAME
}

/// Every field of a struct: name, offset, size, type in C. The pattern fails to compile when one is left out.
macro_rules! fields {
    ($of:ident = $value:expr; $($field:ident),* $(,)?) => {{
        let $of { $($field),* } = $value;
        vec![$((
            stringify!($field),
            offset_of!($of, $field),
            size_of_val(&$field),
            name_in_c($field),
        )),*]
    }};
}

/// Every value of an enum. The match fails to compile when one is left out.
macro_rules! values {
    ($all:ident; $($of:ident { $($value:ident),* $(,)? })*) => {{
        $(
            let _every_one = |value: $of| match value { $($of::$value => ()),* };
            $($all.push((stringify!($value), $of::$value as i128));)*
        )*
    }};
}

fn constants() -> Vec<(&'static str, i128)> {
    let mut all = vec![
        ("MCP_SUPERVISED_ABI_VERSION", i128::from(MCP_SUPERVISED_ABI_VERSION)),
        ("MCP_SUPERVISED_CSTR", MCP_SUPERVISED_CSTR as i128),
        ("MCP_SUPERVISED_UNLIMITED", i128::from(MCP_SUPERVISED_UNLIMITED)),
        ("MCP_SUPERVISED_NO_RESTART", i128::from(MCP_SUPERVISED_NO_RESTART)),
        ("MCP_SUPERVISED_NO_TIMEOUT", i128::from(MCP_SUPERVISED_NO_TIMEOUT)),
        ("MCP_SUPERVISED_STALE", i128::from(MCP_SUPERVISED_STALE)),
        ("MCP_SUPERVISED_REQUEST_PROGRESS", i128::from(MCP_SUPERVISED_REQUEST_PROGRESS)),
        ("MCP_SUPERVISED_REQUEST_META_VERBATIM", i128::from(MCP_SUPERVISED_REQUEST_META_VERBATIM)),
        ("MCP_SUPERVISED_FLAG_COMPLETE", i128::from(MCP_SUPERVISED_FLAG_COMPLETE)),
        ("MCP_SUPERVISED_FLAG_FINAL", i128::from(MCP_SUPERVISED_FLAG_FINAL)),
        ("MCP_SUPERVISED_FLAG_WILL_RECONNECT", i128::from(MCP_SUPERVISED_FLAG_WILL_RECONNECT)),
        ("MCP_SUPERVISED_FLAG_RETRIED", i128::from(MCP_SUPERVISED_FLAG_RETRIED)),
        ("MCP_SUPERVISED_FLAG_UNREAD", i128::from(MCP_SUPERVISED_FLAG_UNREAD)),
        ("MCP_SUPERVISED_FLAG_INPUT_REQUIRED", i128::from(MCP_SUPERVISED_FLAG_INPUT_REQUIRED)),
        ("MCP_SUPERVISED_FLAG_OTHER_RESULT_TYPE", i128::from(MCP_SUPERVISED_FLAG_OTHER_RESULT_TYPE)),
        ("MCP_SUPERVISED_FLAG_EMULATED", i128::from(MCP_SUPERVISED_FLAG_EMULATED)),
        ("MCP_SUPERVISED_FLAG_SERVER_CHANGED", i128::from(MCP_SUPERVISED_FLAG_SERVER_CHANGED)),
        ("MCP_SUPERVISED_FLAG_BY_PEER", i128::from(MCP_SUPERVISED_FLAG_BY_PEER)),
        ("MCP_SUPERVISED_FLAG_EXIT_UNKNOWN", i128::from(MCP_SUPERVISED_FLAG_EXIT_UNKNOWN)),
    ];
    values!(all;
        mcp_supervised_status {
            MCP_SUPERVISED_OK,
            MCP_SUPERVISED_E_NULL,
            MCP_SUPERVISED_E_INVALID,
            MCP_SUPERVISED_E_BAD_HANDLE,
            MCP_SUPERVISED_E_BUSY,
            MCP_SUPERVISED_E_FORKED,
            MCP_SUPERVISED_E_PANIC,
            MCP_SUPERVISED_E_NO_PEER,
            MCP_SUPERVISED_E_NOT_STARTED,
            MCP_SUPERVISED_E_ALREADY_STARTED,
            MCP_SUPERVISED_E_CLOSED,
            MCP_SUPERVISED_E_NOT_CLOSED,
            MCP_SUPERVISED_E_WOULD_BLOCK,
            MCP_SUPERVISED_E_UNSUPPORTED,
            MCP_SUPERVISED_E_SPAWN,
            MCP_SUPERVISED_E_IO,
            MCP_SUPERVISED_E_MALFORMED,
            MCP_SUPERVISED_E_FRAME_TOO_LARGE,
            MCP_SUPERVISED_E_PROTOCOL,
            MCP_SUPERVISED_E_HANDSHAKE,
            MCP_SUPERVISED_E_TIMEOUT,
            MCP_SUPERVISED_E_CANCELLED,
            MCP_SUPERVISED_E_EXHAUSTED,
            MCP_SUPERVISED_E_NO_REQUEST,
            MCP_SUPERVISED_E_DELIVERY_DROPPED,
        }
        mcp_supervised_log_level {
            MCP_SUPERVISED_LOG_SERVER,
            MCP_SUPERVISED_LOG_ERROR,
            MCP_SUPERVISED_LOG_WARNING,
            MCP_SUPERVISED_LOG_INFO,
        }
        mcp_supervised_mode {
            MCP_SUPERVISED_MODE_AUTO,
            MCP_SUPERVISED_MODE_MODERN,
            MCP_SUPERVISED_MODE_LEGACY,
            MCP_SUPERVISED_MODE_RAW,
        }
        mcp_supervised_env_mode {
            MCP_SUPERVISED_ENV_SAFE,
            MCP_SUPERVISED_ENV_INHERIT,
            MCP_SUPERVISED_ENV_EMPTY,
        }
        mcp_supervised_stderr_mode {
            MCP_SUPERVISED_STDERR_LOG,
            MCP_SUPERVISED_STDERR_INHERIT,
            MCP_SUPERVISED_STDERR_NULL,
        }
        mcp_supervised_limit {
            MCP_SUPERVISED_LIMIT_EVENT_QUEUE,
            MCP_SUPERVISED_LIMIT_EVENT_BYTES,
            MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES,
            MCP_SUPERVISED_LIMIT_FRAME_BYTES,
            MCP_SUPERVISED_LIMIT_GRAMMAR_BYTES,
            MCP_SUPERVISED_LIMIT_LOG_LINES,
            MCP_SUPERVISED_LIMIT_LOG_LINE_BYTES,
            MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT,
        }
        mcp_supervised_peer_state {
            MCP_SUPERVISED_STATE_IDLE,
            MCP_SUPERVISED_STATE_STARTING,
            MCP_SUPERVISED_STATE_RUNNING,
            MCP_SUPERVISED_STATE_ENDING,
            MCP_SUPERVISED_STATE_WAITING,
            MCP_SUPERVISED_STATE_DRAINING,
            MCP_SUPERVISED_STATE_CLOSING,
            MCP_SUPERVISED_STATE_CLOSED,
        }
        mcp_supervised_event_kind {
            MCP_SUPERVISED_EVENT_MESSAGE,
            MCP_SUPERVISED_EVENT_CLOSE,
            MCP_SUPERVISED_EVENT_RECONNECT,
            MCP_SUPERVISED_EVENT_ERROR,
            MCP_SUPERVISED_EVENT_EXHAUSTED,
            MCP_SUPERVISED_EVENT_READY,
            MCP_SUPERVISED_EVENT_DRAIN,
            MCP_SUPERVISED_EVENT_LOG,
            MCP_SUPERVISED_EVENT_WRITABLE,
            MCP_SUPERVISED_EVENT_WAKEUP,
            MCP_SUPERVISED_EVENT_SHUTDOWN,
        }
        mcp_supervised_message_kind {
            MCP_SUPERVISED_MESSAGE_RESULT,
            MCP_SUPERVISED_MESSAGE_REMOTE_ERROR,
            MCP_SUPERVISED_MESSAGE_NOTIFICATION,
            MCP_SUPERVISED_MESSAGE_REQUEST,
            MCP_SUPERVISED_MESSAGE_UNMATCHED,
        }
        mcp_supervised_close_reason {
            MCP_SUPERVISED_CLOSE_PEER_LOST,
            MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST,
            MCP_SUPERVISED_CLOSE_WITHDRAWN,
        }
        mcp_supervised_era { MCP_SUPERVISED_ERA_MODERN, MCP_SUPERVISED_ERA_LEGACY }
    );
    all
}

/// The header without its comments.
fn code() -> String {
    let mut code = String::new();
    for piece in GENERATED_HEADER.split("/*") {
        code.push_str(piece.split_once("*/").map_or(piece, |(_, behind)| behind));
    }
    code
}

/// The constants that the header defines: macros with a value, and enumerators.
fn named_in_header() -> BTreeSet<String> {
    let code = code();
    let defines = code.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let name = words.next()?;
        words.next().map(|_| name)
    });
    let enumerators = code.lines().filter_map(|line| Some(line.trim().split_once(" = ")?.0));
    defines.chain(enumerators).filter(|name| name.starts_with("MCP_SUPERVISED_")).map(str::to_owned).collect()
}

/// Constants that are texts, or parts of one; each has a test of its own.
const IN_TEXT: [&str; 2] = ["MCP_SUPERVISED_VERSION", "MCP_SUPERVISED_METHOD_"];

#[test]
fn the_methods_have_their_names() {
    let defined: BTreeSet<(&str, &str)> = GENERATED_HEADER
        .lines()
        .filter_map(|line| line.strip_prefix("#define MCP_SUPERVISED_METHOD_")?.split_once(' '))
        .map(|(name, text)| (name, text.trim_matches('"')))
        .collect();
    let expected = BTreeSet::from([
        ("DISCOVER", "server/discover"),
        ("TOOLS_LIST", "tools/list"),
        ("TOOLS_CALL", "tools/call"),
        ("RESOURCES_LIST", "resources/list"),
        ("RESOURCES_TEMPLATES_LIST", "resources/templates/list"),
        ("RESOURCES_READ", "resources/read"),
        ("PROMPTS_LIST", "prompts/list"),
        ("PROMPTS_GET", "prompts/get"),
        ("COMPLETE", "completion/complete"),
    ]);
    assert_eq!(defined, expected);
}

#[test]
fn layout_and_values_in_c_are_those_of_rust() {
    let all = constants();
    let compared: BTreeSet<String> = all.iter().map(|(name, _)| (*name).to_owned()).collect();
    let in_header: BTreeSet<String> =
        named_in_header().into_iter().filter(|name| !IN_TEXT.iter().any(|text| name.starts_with(text))).collect();
    assert_eq!(compared, in_header, "every constant of the header is compared");

    let mut text = "#include <stdalign.h>\n#include <mcp_supervised.h>\n".to_owned();
    let mut claim =
        |claim: String| writeln!(text, "_Static_assert({claim}, \"{}\");", claim.replace('"', "'")).unwrap();
    for (name, value) in all {
        // Compared in its own width: a negative one must not pass as a large positive one.
        if value < 0 {
            claim(format!("{name} < 0 && {name} == {value}"));
        } else {
            claim(format!("{name} >= 0 && {name} == {value}u"));
        }
    }
    claim(format!("sizeof(mcp_supervised_peer) == {}", size_of::<mcp_supervised_peer>()));
    claim(format!("sizeof(mcp_supervised_request_id) == {}", size_of::<mcp_supervised_request_id>()));
    for Struct { name, size, align, fields } in structs() {
        claim(format!("sizeof({name}) == {size}"));
        claim(format!("alignof({name}) == {align}"));
        for (field, offset, size, in_c) in fields {
            claim(format!("offsetof({name}, {field}) == {offset}"));
            claim(format!("sizeof (({name} *)0)->{field} == {size}"));
            claim(format!("_Generic((({name} *)0)->{field}, {in_c}: 1, default: 0)"));
        }
    }
    let dir = compiler::scratch("header_layout");
    fs::write(dir.join("layout.c"), text).unwrap();
    compiler::run(
        compiler::strict(&compiler::cc(), "c11")
            .args(["-Wno-type-limits", "-c", "layout.c", "-o", "layout.o"])
            .current_dir(&dir),
    );
}

type Fields = Vec<(&'static str, usize, usize, &'static str)>;

/// A struct that hosts see into.
struct Struct {
    name: &'static str,
    size: usize,
    align: usize,
    fields: Fields,
}

fn structs() -> [Struct; 2] {
    [
        Struct {
            name: "mcp_supervised_event",
            size: size_of::<mcp_supervised_event>(),
            align: align_of::<mcp_supervised_event>(),
            fields: event_fields(),
        },
        Struct {
            name: "mcp_supervised_request_options",
            size: size_of::<mcp_supervised_request_options>(),
            align: align_of::<mcp_supervised_request_options>(),
            fields: option_fields(),
        },
    ]
}

fn option_fields() -> Fields {
    let none = mcp_supervised_request_options {
        size: 0,
        user_data: 0,
        timeout_ms: 0,
        max_timeout_ms: 0,
        flags: 0,
        reserved: 0,
    };
    fields!(mcp_supervised_request_options = none; size, user_data, timeout_ms, max_timeout_ms, flags, reserved)
}

fn event_fields() -> Fields {
    fields!(mcp_supervised_event = EMPTY;
        kind,
        flags,
        peer,
        peer_data,
        request,
        user_data,
        status,
        message_kind,
        error_code,
        exit_code,
        signal,
        pid,
        life,
        attempt,
        max_restarts,
        delay_ms,
        uptime_ms,
        count,
        unread_from,
        era,
        reserved,
        payload,
        payload_len,
        method,
        method_len,
        body,
        body_len,
        id,
        id_len,
    )
}

#[test]
fn no_struct_has_padding() {
    // What lies between fields would be left as it was in the host's memory, and could not become a field later.
    for Struct { name, size, fields, .. } in structs() {
        let mut end = 0;
        for (field, offset, size, _) in fields {
            assert_eq!(offset, end, "before {name}.{field}");
            end = offset + size;
        }
        assert_eq!(end, size, "{name}");
    }
}

#[test]
fn the_versions_agree() {
    let value = |name: &str| {
        let defined = GENERATED_HEADER.lines().filter_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        let values: Vec<&str> = defined.filter_map(|rest| rest.strip_prefix(' ')).collect();
        assert_eq!(values.len(), 1, "{name} is defined once");
        values[0].trim_matches('"').to_owned()
    };
    // SAFETY: a static text with a NUL behind it.
    let library = unsafe { CStr::from_ptr(mcp_supervised_version()) }.to_str().unwrap();
    assert_eq!(library, env!("CARGO_PKG_VERSION"));
    assert_eq!(value("MCP_SUPERVISED_VERSION"), library);
    let parts = ["MAJOR", "MINOR", "PATCH"].map(|part| value(&format!("MCP_SUPERVISED_VERSION_{part}")));
    assert_eq!(parts.join("."), library.split(['-', '+']).next().unwrap());
    assert_eq!(value("MCP_SUPERVISED_ABI_VERSION"), mcp_supervised_abi_version().to_string());
}

#[test]
fn every_declared_function_is_an_exported_one_and_has_a_comment() {
    let mut declared = BTreeSet::new();
    let lines: Vec<&str> = GENERATED_HEADER.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if !line.starts_with("MCP_SUPERVISED_API") {
            continue;
        }
        assert_eq!(lines[at - 1], " */", "a comment stands before {line}");
        let rest = if *line == "MCP_SUPERVISED_API" { lines[at + 1] } else { line };
        let name = rest.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap();
        declared.insert(name);
    }
    let exported: BTreeSet<&str> = include_str!("support/exports.txt").lines().collect();
    assert_eq!(declared, exported);
}
