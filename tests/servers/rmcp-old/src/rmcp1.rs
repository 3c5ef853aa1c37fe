//! On release 1.8.

use rmcp::model::{CallToolRequestParams as CallToolRequestParam, PaginatedRequestParams as PaginatedRequestParam};
use rmcp1 as rmcp;

include!("server.rs");
