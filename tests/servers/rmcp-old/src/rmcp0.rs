//! On release 0.12.

use rmcp::model::{CallToolRequestParam, PaginatedRequestParam};
use rmcp0 as rmcp;

include!("server.rs");
