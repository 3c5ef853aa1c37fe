//! Text across the boundary: pointer and length in, pointer and length out.

use std::ffi::{CStr, c_char};

use super::status::Failure;

/// As the length of a text argument: the text is NUL-terminated and the library measures it.
pub const MCP_SUPERVISED_CSTR: usize = usize::MAX;

/// The bytes a C caller names. `(NULL, 0)` is the empty text.
///
/// # Safety
///
/// The pointer is NULL, or names `len` readable bytes, or a NUL-terminated text if `len` is `MCP_SUPERVISED_CSTR`. They stay
/// unchanged while the slice is used.
pub unsafe fn bytes<'a>(what: &str, text: *const c_char, len: usize) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return if len == 0 { Ok(&[]) } else { Err(Failure::null(what)) };
    }
    if len == MCP_SUPERVISED_CSTR {
        // SAFETY: the caller promises a NUL-terminated text for this length.
        return Ok(unsafe { CStr::from_ptr(text) }.to_bytes());
    }
    if len > isize::MAX as usize {
        return Err(Failure::invalid(format!("the length of {what} is {len}: no text is that long")));
    }
    // SAFETY: the caller promises `len` readable bytes, and the length fits.
    Ok(unsafe { std::slice::from_raw_parts(text.cast(), len) })
}

/// UTF-8 text.
///
/// # Safety
///
/// As for `bytes`.
pub unsafe fn utf8<'a>(what: &str, text: *const c_char, len: usize) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise is passed on.
    let bytes = unsafe { bytes(what, text, len) }?;
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8. Every method is ASCII, and the general check takes several times as long.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Bytes that can be passed to a process: without a NUL.
///
/// # Safety
///
/// As for `bytes`.
pub unsafe fn bytes_without_nul(what: &str, text: *const c_char, len: usize) -> Result<Vec<u8>, Failure> {
    // SAFETY: the caller's promise is passed on.
    let bytes = unsafe { bytes(what, text, len) }?;
    if bytes.contains(&0) {
        return Err(Failure::invalid(format!("{what}: a NUL byte cannot be passed to a process")));
    }
    Ok(bytes.to_vec())
}

/// Copies as much of `text` as fits, and a NUL.
///
/// # Safety
///
/// `into` is NULL with a `len` of 0, or names `len` writable bytes.
pub unsafe fn copy_text(text: &str, into: *mut c_char, len: usize) {
    if into.is_null() || len == 0 {
        return;
    }
    let mut count = text.len().min(len - 1);
    while !text.is_char_boundary(count) {
        count -= 1;
    }
    // SAFETY: at most `len - 1` bytes are copied, from a text of at least that length; the two cannot overlap.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), into, count) };
    // SAFETY: `count` is less than `len`.
    unsafe { into.add(count).write(0) };
}
