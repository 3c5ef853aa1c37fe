//! docs/acceptance.md and docs/faults.md are complete and true: every row of their scope is there once, every test they name
//! exists, and what differs or does not apply is argued.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A reason of fewer characters is none.
const REASON: usize = 60;

/// How many traps there are.
const TRAPS: u32 = 28;

/// The faults that were reported, by what they are about; the last are cases that other clients get wrong.
const FAULTS: [(&str, &str); 8] = [
    ("FR", "01 02 03 05 06 08 09 12 15 17 19 20"),
    ("CO", "01 03 05 07 09 10 11"),
    ("BP", "01 03 05 06"),
    ("LT", "01 02 03 05 09 10 11 13 14 15 16 18"),
    ("SP", "01 02 03 04 05 06 07 12"),
    ("SV", "01 02 05 06 09 11 13 14 15"),
    ("HO", "01 03 04 06 08"),
    ("OC", "1 2 3 4 5 6 7 8"),
];

/// The rows of the matrix, in order.
fn scope() -> Vec<String> {
    let plain = (1..=146).map(|row| row.to_string());
    let stdio = (1..=27).map(|row| format!("S{row}"));
    let duplex = (1..=23).map(|row| format!("D{row}"));
    plain.chain(stdio).chain(duplex).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows of all tables with that first column, each a list of cells.
fn rows(document: &str, first_column: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut width = None;
    for line in document.lines() {
        let Some(inner) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            width = None;
            continue;
        };
        let cells: Vec<String> = inner.split('|').map(|cell| cell.trim().to_owned()).collect();
        if cells[0] == first_column {
            width = Some(cells.len());
        } else if let Some(width) = width
            && !cells[0].starts_with("---")
        {
            assert_eq!(cells.len(), width, "{line}");
            rows.push(cells);
        }
    }
    rows
}

fn document() -> String {
    fs::read_to_string(root().join("docs/acceptance.md")).unwrap()
}

/// What stands in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    assert_eq!(cell.matches('`').count() % 2, 0, "{cell}");
    cell.split('`').skip(1).step_by(2).collect()
}

/// The names of all test functions: those behind `#[test]`, in `proptest!` blocks too, where the attribute stands as well.
fn tests_in(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ")
            && is_test
        {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            names.push(rest[..end].to_owned());
            is_test = false;
        } else if !(line.is_empty() || line.starts_with("#[") || line.starts_with("//")) {
            is_test = false;
        }
    }
    names
}

fn every_test() -> BTreeSet<String> {
    fn walk(dir: PathBuf, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            // The servers of the tests are programs of other projects.
            if path.is_dir() && !path.ends_with("tests/servers") {
                walk(path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names.extend(tests_in(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    let mut names = BTreeSet::new();
    walk(root().join("src"), &mut names);
    walk(root().join("tests"), &mut names);
    names
}

/// Whether it is a list of rules: "L4, B2".
fn is_rules(cell: &str) -> bool {
    cell.split(", ").all(|rule| {
        let (letter, number) = rule.split_at(1);
        "LBRTSFWPHZK".contains(letter) && number.parse::<u32>().is_ok()
    })
}

#[test]
fn every_scenario_is_there_once_and_in_order() {
    let document = document();
    let found: Vec<String> = rows(&document, "Row").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(found, scope());
    let traps: Vec<u32> = rows(&document, "Trap").into_iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(traps, (1..=TRAPS).collect::<Vec<_>>());
}

#[test]
fn every_named_test_exists() {
    let document = document();
    let every = every_test();
    let cells = rows(&document, "Row").into_iter().chain(rows(&document, "Trap"));
    let missing: Vec<String> = cells
        .map(|row| (row[0].clone(), row[3].clone()))
        .flat_map(|(number, cell)| quoted(&cell).iter().map(|name| format!("{number}: {name}")).collect::<Vec<_>>())
        .filter(|entry| !every.contains(entry.split(' ').nth(1).unwrap()))
        .collect();
    assert!(missing.is_empty(), "no such test:\n{}", missing.join("\n"));
}

#[test]
fn every_row_is_shown_or_argued() {
    for row in rows(&document(), "Row") {
        let [number, scenario, rule, test, ours] = &row[..] else { panic!("{row:?}") };
        assert!(!scenario.is_empty(), "{number}");
        assert!(is_rules(rule), "{number}: {rule:?} names no rule");
        // Even where a scenario cannot be set up there is something near it that can.
        assert!(!quoted(test).is_empty(), "{number} has no test");
        let argued = ["differs: ", "n/a: "].iter().find_map(|prefix| ours.strip_prefix(prefix));
        match argued {
            Some(reason) => assert!(reason.len() >= REASON, "{number}: {reason:?} is no reason"),
            None => assert_eq!(ours, "same", "{number}"),
        }
    }
}

/// A trap has a test that is named after it, and the tests named after rows and traps are all in the tables.
#[test]
fn every_trap_is_tested_and_no_test_is_forgotten() {
    let document = document();
    let mut named: BTreeSet<String> = BTreeSet::new();
    for row in rows(&document, "Row").iter().chain(&rows(&document, "Trap")) {
        named.extend(quoted(&row[3]).into_iter().map(str::to_owned));
    }
    for row in rows(&document, "Trap") {
        let [number, there, here, test] = &row[..] else { panic!("{row:?}") };
        assert!(!there.is_empty() && !here.is_empty(), "{number}");
        let own = format!("trap_{:02}_", number.parse::<u32>().unwrap());
        match here.strip_prefix("n/a: ") {
            Some(reason) => assert!(reason.len() >= REASON && test == "none", "{number}: {reason:?}"),
            None => assert!(quoted(test).iter().any(|name| name.starts_with(&own)), "{number} has no {own} test"),
        }
    }
    let forgotten: Vec<String> = every_test()
        .into_iter()
        .filter(|name| name.starts_with("row_") || name.starts_with("trap_"))
        .filter(|name| !named.contains(name))
        .collect();
    assert!(forgotten.is_empty(), "in no table: {forgotten:?}");
}

#[test]
fn every_fault_has_a_test_of_its_name() {
    let document = fs::read_to_string(root().join("docs/faults.md")).unwrap();
    let rows = rows(&document, "Fault");
    let of = |(kind, numbers): &(&str, &str)| numbers.split(' ').map(|n| format!("{kind}-{n}")).collect::<Vec<_>>();
    let scope: Vec<String> = FAULTS.iter().flat_map(of).collect();
    assert_eq!(rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), scope);
    assert_eq!(scope.iter().filter(|id| !id.starts_with("OC-")).count(), 57);
    let every = every_test();
    let mut named = BTreeSet::new();
    for row in &rows {
        let [id, kind, rule, test, ours] = &row[..] else { panic!("{row:?}") };
        assert!(!kind.is_empty() && !ours.is_empty() && is_rules(rule), "{row:?}");
        let own = format!("{}_", id.to_lowercase().replace('-', "_"));
        let names = quoted(test);
        assert!(names.iter().any(|name| name.starts_with(&own)), "{id} has no {own} test");
        for name in names {
            assert!(every.contains(name), "{id}: there is no {name}");
            named.insert(name.to_owned());
        }
    }
    let is_one = |name: &String| {
        let kind = FAULTS.iter().any(|(kind, _)| name.starts_with(&format!("{}_", kind.to_lowercase())));
        kind && name.as_bytes().get(3).is_some_and(u8::is_ascii_digit)
    };
    let forgotten: Vec<&String> = every.iter().filter(|name| is_one(name) && !named.contains(*name)).collect();
    assert!(forgotten.is_empty(), "in no table: {forgotten:?}");
}

/// Each threat names what shows its answer: tests, and fuzz targets, which are said to be such.
#[test]
fn every_threat_is_tested() {
    let document = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let every = every_test();
    let threats = rows(&document, "Threat");
    assert!(threats.len() > 15, "{}", threats.len());
    for row in &threats {
        let [threat, answer, shown] = &row[..] else { panic!("{row:?}") };
        assert!(!threat.is_empty() && !answer.is_empty() && !shown.is_empty(), "{row:?}");
        let (tests, target) = shown.split_once(", the target ").unwrap_or((shown, ""));
        for name in quoted(tests) {
            assert!(every.contains(name), "there is no {name}");
        }
        for name in quoted(target) {
            assert!(root().join(format!("fuzz/fuzz_targets/{name}.rs")).is_file(), "there is no target {name}");
        }
        assert!(!quoted(tests).is_empty(), "{threat}: nothing shows it");
    }
}

#[test]
fn the_readers_see_what_is_meant() {
    let source = "
        #[test]
        fn plain() {}
        fn helper() {}
        #[test]
        #[ignore = \"slow\"]
        // Why.
        fn attributes() {}
        proptest! {
            #[test]
            fn generated(x in 0..3) {}
        }
        #[test]
        const NOT: u32 = 1;
        fn neither() {}
    ";
    assert_eq!(tests_in(source), ["plain", "attributes", "generated"]);
    let document = "| Row | a |\n|---|---|\n| 1 | `x` `y` |\n\n| Other | a |\n|---|---|\n| 2 | b |\n\n| Row | a |\n|---|---|\n| 3 | c |\n";
    let found = rows(document, "Row");
    assert_eq!(found, [["1", "`x` `y`"], ["3", "c"]]);
    assert_eq!(quoted(&found[0][1]), ["x", "y"]);
    assert!(is_rules("L4, B2") && !is_rules("L") && !is_rules("Q1"));
}
