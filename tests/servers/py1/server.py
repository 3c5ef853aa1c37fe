"""A small server on release 1 of the official Python SDK, for tests against code that is not ours. Speaks the revisions before
2026-07-28 only, and writes a hundred lines to stderr for each request that it does not know."""

import os
import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("mcp-supervised-py1")


@server.tool()
def echo(message: str) -> str:
    """Says the message again."""
    return message


@server.tool()
def pid() -> str:
    """The process id."""
    return str(os.getpid())


@server.tool()
def crash(code: int = 13) -> str:
    """Exits without an answer."""
    os._exit(code)


@server.resource("mem://counter")
def counter() -> str:
    return "0"


print("py1 is up", file=sys.stderr, flush=True)
server.run("stdio")
