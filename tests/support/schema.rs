//! As much of JSON Schema (draft 7 and 2020-12) as the published schemas of the protocol use. A keyword that is not known here is a
//! panic, so that a later schema cannot pass by being overlooked.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;

use serde_json::Value;

/// Where the schemas lie, unless the variable says otherwise: beside the repository.
const BESIDE: &str = "../shared/schema";
const VARIABLE: &str = "MCP_SUPERVISED_SCHEMAS";

/// The schema of one revision of the protocol.
pub struct Schema(Value);

impl Schema {
    /// `None` where nobody has put the schemas; they are not part of the repository.
    pub fn of(revision: &str) -> Option<Self> {
        let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(BESIDE);
        let dir = std::env::var_os(VARIABLE).map_or(beside, PathBuf::from);
        let Ok(text) = std::fs::read_to_string(dir.join(format!("{revision}.json"))) else {
            let missing = format!("no schemas in {}; {VARIABLE} names another folder", dir.display());
            assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "{missing}");
            println!("skipped: {missing}");
            return None;
        };
        Some(Self(serde_json::from_str(&text).expect("a schema is JSON")))
    }

    /// Checks a value against a definition; the error says where it fails.
    pub fn check(&self, definition: &str, value: &Value) -> Result<(), String> {
        self.at(self.definition(definition), value, definition)
    }

    /// A definition; the drafts keep them in different places.
    fn definition(&self, name: &str) -> &Value {
        let kept = ["$defs", "definitions"].into_iter().find_map(|place| self.0.get(place)?.get(name));
        kept.unwrap_or_else(|| panic!("the schema does not define {name}"))
    }

    fn at(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let rules = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(rules) => rules,
            other => panic!("{place}: {other} is no schema"),
        };
        let fail = |what: &str| Err(format!("{place}: {value} {what}"));
        for (keyword, rule) in rules {
            match keyword.as_str() {
                // What it means is said to people, or is not checked by default.
                "description" | "title" | "default" | "$comment" | "format" => {}
                "$ref" => {
                    let name = rule
                        .as_str()
                        .and_then(|to| to.strip_prefix("#/$defs/").or_else(|| to.strip_prefix("#/definitions/")));
                    let name = name.expect("a reference inside");
                    self.at(self.definition(name), value, &format!("{place}>{name}"))?;
                }
                "type" => {
                    let types = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
                    if !types.iter().any(|kind| is(value, kind.as_str().expect("a type is a text"))) {
                        return fail(&format!("is not {rule}"));
                    }
                }
                "const" if rule != value => return fail(&format!("is not {rule}")),
                "enum" if !rule.as_array().expect("a list").contains(value) => {
                    return fail(&format!("is none of {rule}"));
                }
                "const" | "enum" => {}
                "minimum" if value.as_f64() < rule.as_f64() && value.is_number() => return fail("is too small"),
                "maximum" if value.as_f64() > rule.as_f64() && value.is_number() => return fail("is too large"),
                "maxItems" if value.as_array().is_some_and(|all| Some(all.len() as u64) > rule.as_u64()) => {
                    return fail("has too many items");
                }
                "minimum" | "maximum" | "maxItems" => {}
                "required" => {
                    let Some(value) = value.as_object() else { continue };
                    let missing = rule.as_array().expect("a list").iter().filter_map(Value::as_str);
                    if let Some(key) = missing.into_iter().find(|key| !value.contains_key(*key)) {
                        return fail(&format!("has no {key}"));
                    }
                }
                "properties" => {
                    for (key, schema) in rule.as_object().expect("an object") {
                        if let Some(value) = value.get(key) {
                            self.at(schema, value, &format!("{place}.{key}"))?;
                        }
                    }
                }
                "additionalProperties" => {
                    let named = rules.get("properties").and_then(Value::as_object);
                    for (key, value) in value.as_object().into_iter().flatten() {
                        if named.is_some_and(|named| named.contains_key(key)) {
                            continue;
                        }
                        if *rule == Value::Bool(false) {
                            return fail(&format!("has {key}, which nobody knows"));
                        }
                        self.at(rule, value, &format!("{place}.{key}"))?;
                    }
                }
                "items" => {
                    for (at, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.at(rule, value, &format!("{place}[{at}]"))?;
                    }
                }
                "allOf" => {
                    for schema in rule.as_array().expect("a list") {
                        self.at(schema, value, place)?;
                    }
                }
                "anyOf" => {
                    let tried = rule.as_array().expect("a list").iter().map(|schema| self.at(schema, value, place));
                    let errors: Vec<String> = tried.filter_map(Result::err).collect();
                    if errors.len() == rule.as_array().map_or(0, Vec::len) {
                        return Err(errors.join("\n"));
                    }
                }
                other => panic!("{place}: the keyword {other} is not known here"),
            }
        }
        Ok(())
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("{other} is no type"),
    }
}
