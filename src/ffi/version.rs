//! Which library this is.

use std::ffi::{CStr, c_char};

/// Counts breaks of the binary interface. A program built against one ABI number runs with any library of the same number.
pub const MCP_SUPERVISED_ABI_VERSION: u32 = 0;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// The ABI number of the library that is loaded; compare it with MCP_SUPERVISED_ABI_VERSION of the header.
#[unsafe(no_mangle)]
pub extern "C" fn mcp_supervised_abi_version() -> u32 {
    MCP_SUPERVISED_ABI_VERSION
}

/// The version of the library that is loaded, for example "0.1.0". Static text, NUL-terminated: nobody frees it.
#[unsafe(no_mangle)]
pub extern "C" fn mcp_supervised_version() -> *const c_char {
    VERSION.as_ptr()
}
