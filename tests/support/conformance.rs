//! The client scenarios of the official conformance suite that apply to a client of processes, each played by the host in
//! `tests/conformance`, whose servers are the suite's.

use std::path::Path;
use std::process::Command;

use crate::compiler::shared_library;

/// A scenario, a revision it is played in, and how many checks the suite makes of it.
pub const SCENARIOS: [(&str, &str, u32); 12] = [
    ("initialize", "2025-06-18", 1),
    ("initialize", "2025-11-25", 1),
    ("tools_call", "2025-06-18", 2),
    ("tools_call", "2025-11-25", 2),
    ("tools_call", "2026-07-28", 2),
    ("request-metadata", "2026-07-28", 6),
    ("sep-2322-client-request-state", "2026-07-28", 6),
    ("json-schema-ref-no-deref", "2026-07-28", 1),
    ("json-schema-2020-12-preservation", "2025-11-25", 9),
    ("json-schema-2020-12-preservation", "2026-07-28", 9),
    ("elicitation-sep1034-client-defaults", "2025-11-25", 5),
    ("http-standard-headers", "2026-07-28", 3),
];

/// Plays one, which must pass every check.
pub fn play(servers: &Path, scenario: &str, revision: &str, checks: u32) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let own = servers.join("node/node_modules/.bin/node");
    let node = if own.is_file() { own } else { "node".into() };
    let output = Command::new(node)
        .arg(servers.join("conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--scenario", scenario, "--spec-version", revision, "--timeout", "60000", "--command"])
        .arg(format!("python3 {}", sources.join("host.py").display()))
        .env("MCP_SUPERVISED_LIBRARY", shared_library())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // Where results would be kept.
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("the suite runs");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let passed = format!("Passed: {checks}/{checks}, 0 failed, 0 warnings");
    assert!(output.status.success() && said.contains(&passed), "{scenario} {revision}: {}\n{said}", output.status);
}
