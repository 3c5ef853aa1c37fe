//! An array of messages, taken apart one element at a time (Z6): a small line can hold millions of them, so that they must not
//! be told before the host has room for them.

use super::framing::Frame;

/// An array and how far it was taken apart.
#[derive(Debug)]
pub struct Batch {
    array: Frame,
    at: usize,
    end: usize,
}

impl Batch {
    /// Of a line that is a JSON array. `None` if there is nothing in it.
    pub fn of(array: Frame) -> Option<Self> {
        let bytes = array.bytes();
        let inside = bytes.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
        let at = bytes.iter().position(|byte| *byte == b'[')? + 1;
        let end = at + inside.len();
        (!inside.trim_ascii().is_empty()).then_some(Self { array, at, end })
    }

    /// The text of the next element, and whether another one follows.
    pub fn next_element(&mut self) -> (&[u8], bool) {
        let rest = &self.array.bytes()[self.at..self.end];
        let length = element(rest);
        self.at += length + 1;
        (rest[..length].trim_ascii(), length < rest.len())
    }
}

/// Up to the comma that ends the first element. The text was checked: strings end and brackets match.
fn element(text: &[u8]) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn elements(text: &str) -> Vec<String> {
        let Some(mut batch) = Batch::of(Frame::made(text.as_bytes().to_vec())) else { return Vec::new() };
        let mut all = Vec::new();
        loop {
            let (element, more) = batch.next_element();
            all.push(String::from_utf8(element.to_vec()).unwrap());
            if !more {
                return all;
            }
        }
    }

    #[test]
    fn z06_an_array_is_taken_apart_in_order() {
        assert_eq!(elements(r#" [ {"a":[1,2],"b":"],\"[,"} , [ ] ,3] "#), [r#"{"a":[1,2],"b":"],\"[,"}"#, "[ ]", "3"]);
        assert_eq!(elements("[]"), [""; 0]);
        assert_eq!(elements(" [ ] "), [""; 0]);
        assert_eq!(elements("[,]"), ["", ""]);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), ".*".prop_map(Value::from), Just(Value::Null)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                (".*", inner).prop_map(|(key, value)| json!({key: value})),
            ]
        })
    }

    proptest! {
        #[test]
        fn z06_elements_are_those_a_parser_finds(values in proptest::collection::vec(value(), 0..6)) {
            let found: Vec<Value> =
                elements(&Value::from(values.clone()).to_string()).iter().map(|text| serde_json::from_str(text).unwrap()).collect();
            prop_assert_eq!(found, values);
        }
    }
}
