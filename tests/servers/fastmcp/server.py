"""A small server on the package fastmcp, which many servers are written with, for tests against code that is not ours."""

import os

from fastmcp import FastMCP

server = FastMCP("mcp-supervised-fastmcp")


@server.tool
def echo(message: str) -> str:
    """Says the message again."""
    return message


@server.tool
def pid() -> str:
    """The process id."""
    return str(os.getpid())


@server.resource("mem://counter")
def counter() -> str:
    return "0"


server.run(transport="stdio", show_banner=False)
