// The server itself, the same for each release: two tools, made of JSON because the types differ.

use rmcp::model::{CallToolResult, ErrorData, ListToolsResult, ServerInfo};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt, transport::stdio};
use serde_json::{Value, json};

#[derive(Clone)]
struct Server;

/// A type of the SDK from its JSON, which is the same in every release.
fn made<T: serde::de::DeserializeOwned>(json: Value) -> Result<T, ErrorData> {
    serde_json::from_value(json).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerInfo {
        let mut info = ServerInfo::default();
        info.capabilities.tools = Some(Default::default());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParam>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let message = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
        made(json!({"tools": [
            {"name": "echo", "description": "says the message again", "inputSchema": message},
            {"name": "pid", "description": "the process id", "inputSchema": {"type": "object"}},
        ]}))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParam,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let text = match call.name.as_ref() {
            "echo" => call.arguments.and_then(|given| given.get("message")?.as_str().map(str::to_owned)),
            "pid" => Some(std::process::id().to_string()),
            _ => None,
        };
        let Some(text) = text else {
            return Err(ErrorData::invalid_params("no such tool, or no message", None));
        };
        made(json!({"content": [{"type": "text", "text": text}], "isError": false}))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    match Server.serve(stdio()).await {
        Ok(serving) => drop(serving.waiting().await),
        Err(error) => {
            eprintln!("serve error: {error}");
            std::process::exit(1);
        }
    }
}
