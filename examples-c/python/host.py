"""A host in Python: asks a server for all it has, keeps a stream open, lets the server crash in the middle of a call, and goes on
with the replacement, while the loop does other things as well.

    python3 host.py [COMMAND [ARGUMENT]...]

Needs MCP_SUPERVISED_LIBRARY if the loader does not find the library. Exits with 0 if everything came as it should.
"""

import asyncio
import sys
from typing import List

import mcp_supervised
from mcp_supervised import Era, Event, Flag, Kind

ticks = 0


async def tick() -> None:
    """The loop stays free for others."""
    global ticks
    while True:
        await asyncio.sleep(0.01)
        ticks += 1


def must(what: str, is_so: bool, seen: object = "") -> None:
    if not is_so:
        sys.exit(f"failed: {what}: {seen}")


def text_of(result: mcp_supervised.Result) -> str:
    return str(result.json()["content"][0]["text"])


async def ask_for_everything(server: mcp_supervised.Server) -> None:
    must("discover", "tools" in (await server.discover()).json()["capabilities"])
    must("known", b'"tools"' in server.server_capabilities()[0])
    tools = (await server.list_tools()).json()["tools"]
    must("list_tools", "echo" in [tool["name"] for tool in tools], tools)
    must("list_resources", b"mem://counter" in (await server.list_resources()).body)
    must("list_resource_templates", (await server.list_resource_templates()).json()["resourceTemplates"] == [])
    must("read_resource", (await server.read_resource("mem://counter")).json()["contents"][0]["text"] == "0")
    must("list_prompts", b'"greet"' in (await server.list_prompts()).body)
    must("get_prompt", 'Ada "the first"' in str((await server.get_prompt("greet", {"name": 'Ada "the first"'})).json()))
    proposals = (await server.complete_prompt("greet", "name", "A")).json()["completion"]["values"]
    must("complete_prompt", proposals == ["Ada", "Alan"], proposals)
    must("call_tool", text_of(await server.call_tool("echo", {"message": "tab\there, 世界"})) == "tab\there, 世界")
    # Many at once: each waits for its own answer.
    answers = await asyncio.gather(*(server.call_tool("echo", {"message": str(n)}) for n in range(100)))
    must("100 at once", [text_of(answer) for answer in answers] == [str(n) for n in range(100)])

    steps: List[object] = []
    progress = await server.call_tool("progress", {"every_ms": 1, "count": 3}, on_progress=steps.append)
    must("progress", len(steps) == 3 and b"content" in progress.body, steps)
    try:
        await server.call_tool("no such tool")
        must("an error of the server", False)
    except mcp_supervised.RemoteError as error:
        must("its code", error.code == -32602, error)
    try:
        await server.call_tool("echo", mcp_supervised.Raw("{"))
        must("bad JSON", False)
    except mcp_supervised.Error as error:
        must("its name", error.name == "E_INVALID", error)


async def be_asked(server: mcp_supervised.Server, era: int) -> None:
    """A server may need to know more. Today it says so as a result: the answers go with the same question, and with the state that
    came. Servers of older revisions ask back, which on_request answers."""
    if era == Era.LEGACY:
        answer = await server.call_tool("ask_client", {"method": "elicitation/create", "params": {"message": "name?"}})
        must("the answer", "Grace" in text_of(answer), answer)
        refusal = await server.call_tool("ask_client", {"method": "sampling/createMessage"})
        must("the refusal", "no model" in text_of(refusal), refusal)
        return
    asked = await server.call_tool("ask")
    must("more input is wanted", asked.input_required, asked)
    again = await server.call_tool(
        "ask",
        input_responses={"name": {"action": "accept", "content": {"name": "Grace"}}},
        request_state=asked.json()["requestState"],
    )
    must("the answer", text_of(again) == "hello Grace", again)


async def on_request(method: str, params: object) -> object:
    if method != "elicitation/create":
        raise mcp_supervised.Refusal(-1, "no model here")
    await asyncio.sleep(0.001)  # as if somebody had to be asked
    return {"action": "accept", "content": {"name": "Grace"}}


async def crash_and_recover(server: mcp_supervised.Server, seen: "asyncio.Queue[Event]") -> None:
    stream = server.listen(tools=True)
    acknowledged = await stream.__anext__()
    must("acknowledged", acknowledged.method == "notifications/subscriptions/acknowledged", acknowledged)
    first = text_of(await server.call_tool("pid"))
    must("pid", first == str(server.pid), first)

    try:
        await server.call_tool("crash", {"code": 7})
        must("the call is lost", False)
    except mcp_supervised.RequestError as error:
        must("E_CLOSED", error.name == "E_CLOSED" and not error.unread, error)
    kinds = []
    while True:
        event = await seen.get()
        if event.kind != Kind.LOG:
            kinds.append(Kind(event.kind).name)
        if event.kind == Kind.CLOSE:
            must("why", event.exit_code == 7 and bool(event.flags & Flag.WILL_RECONNECT), event)
        if event.kind == Kind.RECONNECT:
            break
    must("the order", kinds == ["DRAIN", "CLOSE", "RECONNECT"], kinds)
    print(f"replaced: pid {server.pid} after {first}")
    must("another process", text_of(await server.call_tool("pid")) == str(server.pid) != first)

    again = await stream.__anext__()
    must("acknowledged again", again.method == acknowledged.method, again)
    await server.call_tool("flip")
    changed = await stream.__anext__()
    must("the stream goes on", changed.method == "notifications/tools/list_changed", changed)
    stream.cancel("not needed any more")
    async for event in stream:
        must("nothing more", False, event)

    slow = asyncio.ensure_future(server.call_tool("sleep", {"ms": 60000}))
    await asyncio.sleep(0)
    slow.cancel()
    must("cancelled", isinstance((await asyncio.gather(slow, return_exceptions=True))[0], asyncio.CancelledError))
    try:
        await server.call_tool("sleep", {"ms": 60000}, timeout=0.05)
        must("too late", False)
    except mcp_supervised.RequestError as error:
        must("E_TIMEOUT", error.name == "E_TIMEOUT", error)


async def main() -> None:
    ticker = asyncio.ensure_future(tick())
    seen: "asyncio.Queue[Event]" = asyncio.Queue()
    async with mcp_supervised.Host() as host:
        command = sys.argv[1:] or ["mcp-supervised-demo-server"]
        server = host.add(
            *command,
            client_info=("python-host", "1.0"),
            client_capabilities={"elicitation": {}, "sampling": {}},
            restart=(3, 0.05, 60),
            on_request=on_request,
            on_event=seen.put_nowait,
        )
        server.start()
        while (ready := await seen.get()).kind == Kind.LOG:
            pass
        must("READY", ready.kind == Kind.READY and ready.pid == server.pid, ready)
        await ask_for_everything(server)
        await be_asked(server, ready.era)
        await crash_and_recover(server, seen)
        server.close()
        await server.closed()
        server.remove()
        await host.shutdown()
    ticker.cancel()
    must("the loop was free", ticks > 5, ticks)
    print("everything was seen")


if __name__ == "__main__":
    asyncio.run(main())
