"""A small server on the official Python SDK, for tests against code that is not ours."""

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, MCPServer

COUNTER = "mem://counter"
server = MCPServer("mcp-supervised-py2")
count = 0


@server.resource(COUNTER)
def counter() -> str:
    return str(count)


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


@server.tool()
async def sleep(ms: int, context: Context) -> str:
    """Answers after ms, in four steps of progress."""
    for step in range(1, 5):
        await asyncio.sleep(ms / 4000)
        await context.report_progress(step, 4)
    return "slept"


@server.tool()
async def bump(context: Context) -> str:
    """Counts up and tells the subscribers."""
    global count
    count += 1
    await context.notify_resource_updated(COUNTER)
    return str(count)


@server.tool()
async def flip(context: Context) -> str:
    """Adds the tool extra and tells so."""

    def extra() -> str:
        return "extra"

    server.add_tool(extra)
    await context.notify_tools_changed()
    return "true"


print("py2 is up", file=sys.stderr, flush=True)
server.run("stdio")
