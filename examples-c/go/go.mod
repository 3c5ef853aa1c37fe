module mcp-supervised.example

go 1.19
