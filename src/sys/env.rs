//! The environment that a child starts with: captured once, as data, so that every later start gets the same.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Variables in order, each name once.
pub type Variables = Vec<(OsString, OsString)>;

/// A variable that cannot be passed on. Its value is left out on purpose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid environment variable: {name:?}")]
pub struct BadVariable {
    /// The name as given.
    pub name: OsString,
}

const SAFE: [&str; 8] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR"];

/// What a program needs to find its way, and nothing that may be secret: a fixed list of names and every `LC_` one. Values that begin
/// with `()` are skipped: some shells take them for functions and run them.
#[must_use]
pub fn safe() -> Variables {
    safe_of(inherit())
}

/// Everything this process has.
#[must_use]
pub fn inherit() -> Variables {
    std::env::vars_os().collect()
}

/// Nothing.
#[must_use]
pub fn empty() -> Variables {
    Vec::new()
}

/// This process's PATH, for commands whose own environment has none.
#[must_use]
pub fn host_path() -> Option<OsString> {
    std::env::var_os("PATH")
}

/// Adds a variable, in the place of one with the same name.
pub fn set(variables: &mut Variables, name: OsString, value: OsString) {
    match variables.iter_mut().find(|(known, _)| *known == name) {
        Some(entry) => entry.1 = value,
        None => variables.push((name, value)),
    }
}

/// `NAME=value` each, as the kernel takes them.
///
/// # Errors
///
/// A name is empty or has an `=` in it, or a NUL is in the name or the value.
pub fn to_cstrings(variables: &[(OsString, OsString)]) -> Result<Vec<CString>, BadVariable> {
    variables.iter().map(|(name, value)| to_cstring(name, value)).collect()
}

fn to_cstring(name: &OsStr, value: &OsStr) -> Result<CString, BadVariable> {
    let bad = || BadVariable { name: name.to_owned() };
    // A leading `=` is let through in what was inherited: such names exist, and no C library minds.
    let (first, rest) = name.as_bytes().split_first().ok_or_else(bad)?;
    if rest.contains(&b'=') || (*first == b'=' && rest.is_empty()) {
        return Err(bad());
    }
    let mut text = name.to_owned();
    text.push("=");
    text.push(value);
    CString::new(text.into_vec()).map_err(|_| bad())
}

fn safe_of(all: Variables) -> Variables {
    let wanted =
        |name: &OsStr| name.as_bytes().starts_with(b"LC_") || SAFE.iter().any(|known| OsStr::new(known) == name);
    all.into_iter().filter(|(name, value)| wanted(name) && !value.as_bytes().starts_with(b"()")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    #[test]
    fn safe_lets_only_the_list_through() {
        let all = vec![
            pair("HOME", "/h"),
            pair("SECRET", "s"),
            pair("LC_ALL", "C"),
            pair("LC_X", "() { :; }"),
            pair("PATH", "/bin"),
            pair("LANGUAGE", "de"),
            pair("TMPDIR", ""),
            pair("path", "/x"),
        ];
        let names: Vec<_> = safe_of(all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["HOME", "LC_ALL", "PATH", "TMPDIR"]);
    }

    #[test]
    fn inherit_has_everything_and_empty_nothing() {
        assert_eq!(inherit().len(), std::env::vars_os().count());
        assert!(inherit().iter().any(|(name, _)| name == "PATH"));
        assert!(empty().is_empty());
        assert!(host_path().is_some());
    }

    #[test]
    fn set_replaces_or_adds() {
        let mut variables = vec![pair("A", "1"), pair("B", "2")];
        set(&mut variables, "A".into(), "3".into());
        set(&mut variables, "C".into(), "4".into());
        assert_eq!(variables, [pair("A", "3"), pair("B", "2"), pair("C", "4")]);
    }

    #[test]
    fn strings_keep_every_byte() {
        let odd = OsString::from_vec(vec![0xff, b'=', b'x']);
        let made = to_cstrings(&[pair("A", "b=c"), pair("E", ""), ("N".into(), odd)]).unwrap();
        assert_eq!(made, [c"A=b=c".to_owned(), c"E=".to_owned(), c"N=\xff=x".to_owned()]);
    }

    #[test]
    fn bad_ones_are_refused_without_their_value() {
        for (name, value) in [("", "v"), ("=", "v"), ("a=b", "v"), ("a\0b", "v"), ("a", "hush\0")] {
            let error = to_cstrings(&[pair(name, value)]).unwrap_err();
            assert_eq!(error.name, name);
            assert!(!error.to_string().contains("hush"));
        }
    }
}
