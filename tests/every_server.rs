//! The servers that people run, of both eras, through one code: every run sees a few of them, `./tests/all --servers` sees all that
//! are pinned, and writes what it found to `docs/servers.md`.

#[path = "support/compiler.rs"]
mod compiler;
#[path = "support/conformance.rs"]
mod conformance;
#[path = "support/examined.rs"]
mod examined;
#[path = "support/installed.rs"]
mod installed;
#[path = "support/pinned.rs"]
mod pinned;
mod support;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use conformance::{SCENARIOS, play};
use examined::{Found, examine, give_up};
use pinned::{Pinned, broken, pinned};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/servers.md");

const COLUMNS: [&str; 11] = [
    "server",
    "what it is",
    "era found",
    "discover",
    "list",
    "call",
    "listen",
    "`kill -9` and recovered",
    "stream still delivers",
    "clean close",
    "left behind",
];

fn row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

fn row_of(server: &Pinned, found: &Found) -> String {
    row([server.name, server.package].into_iter().chain(found.cells()))
}

/// One of those that every run looks at: it holds, and is what the page says of it.
fn is_as_the_page_says(name: &str) {
    let server = pinned().into_iter().find(|server| server.name == name).expect("it is pinned");
    let Some(found) = examine(&server) else { return };
    let row = row_of(&server, &found);
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let begin = format!("| {name} |");
    let told = page.lines().find(|line| line.starts_with(&begin)).unwrap_or_default();
    assert_eq!(row.trim_end(), told, "./tests/all --servers writes the page anew");
}

macro_rules! usual {
    ($($test:ident $name:literal)*) => {$(
        #[test]
        fn $test() {
            is_as_the_page_says($name);
        }
    )*};
}

usual! {
    z01_the_demo_server "demo"
    z03_the_demo_server_of_2025_11_25 "demo-2025-11-25"
    z03_the_demo_server_of_2025_06_18 "demo-2025-06-18"
    z03_the_demo_server_of_2025_03_26 "demo-2025-03-26"
    z03_the_demo_server_of_2024_11_05 "demo-2024-11-05"
    z01_a_server_of_both_eras "ts2"
    z03_a_server_of_the_older_era "ts1"
    z03_a_published_server_of_the_older_era "memory"
}

/// Everything, one after the other, and the page. What fails is on it, and fails this.
#[test]
fn every_server() {
    if std::env::var_os("MCP_SUPERVISED_TEST_EVERY_SERVER").is_none() {
        println!("skipped: ./tests/all --servers runs it");
        return;
    }
    let mut table = row(COLUMNS) + &row(COLUMNS.map(|_| "---"));
    let mut failed = Vec::new();
    for server in pinned() {
        println!("{}", server.name);
        match catch_unwind(AssertUnwindSafe(|| examine(&server))) {
            Ok(found) => table += &row_of(&server, &found.expect("it is installed")),
            Err(_) => {
                table += &row([server.name, server.package, "**fails**"]);
                failed.push(server.name);
            }
        }
    }
    let broken = broken();
    let ends = match catch_unwind(AssertUnwindSafe(|| give_up(&broken))) {
        Ok(told) => told.expect("it is installed"),
        Err(_) => {
            failed.push(broken.name);
            "**fails**".to_owned()
        }
    };
    let mut page = include_str!("servers/page.md").to_owned();
    let mut fill = |place: &str, text: &str| {
        assert!(page.contains(place), "{place}");
        page = page.replace(place, text.trim_end());
    };
    fill("@SERVERS@", &table);
    let mut ended = String::new();
    write!(ended, "{} ({}): {ends}", broken.name, broken.package).expect("a string takes everything");
    fill("@BROKEN@", &ended);
    let servers = installed::servers().expect("they are installed");
    let mut scenarios = row(["scenario", "revision", "checks"]) + &row(["---"; 3]);
    for (scenario, revision, checks) in SCENARIOS {
        println!("{scenario} {revision}");
        let told = match catch_unwind(|| play(&servers, scenario, revision, checks)) {
            Ok(()) => format!("{checks} of {checks} pass"),
            Err(_) => {
                failed.push(scenario);
                "**fails**".to_owned()
            }
        };
        scenarios += &row([scenario, revision, &told]);
    }
    fill("@SCENARIOS@", &scenarios);
    std::fs::write(PAGE, page).expect("the page can be written");
    assert_eq!(failed, [""; 0]);
}
