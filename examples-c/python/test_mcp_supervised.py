"""Tests of the module itself. MCP_SUPERVISED_DEMO_SERVER names the demo server.

    python3 -m unittest test_mcp_supervised
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import unittest
from typing import Any, List, Tuple

import mcp_supervised
from mcp_supervised import Era, Error, Event, Flag, Host, Kind, Mode, Raw, RequestError, State

SERVER = os.environ.get("MCP_SUPERVISED_DEMO_SERVER", "mcp-supervised-demo-server")


def text_of(result: mcp_supervised.Result) -> str:
    return str(result.json()["content"][0]["text"])


class Test(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.problems: List[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.problems.append(context))
        self.host = Host()

    async def asyncTearDown(self) -> None:
        self.host.free()
        self.assertEqual(self.problems, [])

    def start(self, *args: str, **options: Any) -> mcp_supervised.Server:
        options.setdefault("restart", (mcp_supervised.UNLIMITED, 0.001, 60))
        server = self.host.add(SERVER, *args, **options)
        server.start()
        return server

    async def until(self, is_so: Any) -> None:
        async def look() -> None:
            while not is_so():
                await asyncio.sleep(0.001)

        await asyncio.wait_for(look(), 60)

    async def test_typed_calls(self) -> None:
        """Every typed call once. What runs this looks at the server's record of its input."""
        with tempfile.TemporaryDirectory() as directory:
            record = os.environ.get("MCP_SUPERVISED_RECORD") or os.path.join(directory, "record")
            server = self.start("--record", record, mode=Mode.MODERN)
            more = {
                "meta": {"k": 1},
                "input_responses": {"name": {"action": "decline"}},
                "request_state": "state-1",
            }
            calls = [
                server.discover(),
                server.list_tools(),
                server.list_tools(""),
                server.list_resources("c"),
                server.list_resource_templates("c"),
                server.list_prompts("c"),
                server.call_tool("ask", {}, **more),
                server.read_resource("mem://counter", **more),
                server.get_prompt("greet", {"name": "x"}),
                server.complete_prompt("greet", "name", "A", {"other": "x"}),
                server.complete_resource("mem://{a}", "a", ""),
            ]
            await asyncio.gather(*calls)
            server.notify("notifications/cancelled", {"requestId": 999})
            await server.call_tool("echo", {"message": "over"})
            with open(record) as lines:
                self.assertEqual(len(lines.readlines()), 13)

    async def test_what_is_refused_says_why(self) -> None:
        def wrong(name: str, part: str, call: Any) -> None:
            with self.assertRaises(Error) as caught:
                call()
            self.assertEqual(caught.exception.name, name)
            self.assertIn(part, str(caught.exception))

        wrong("E_INVALID", "", lambda: self.host.add(""))
        wrong("E_INVALID", "arg", lambda: self.host.add("x", "a\0b"))
        wrong("E_INVALID", "NO_RESTART", lambda: self.host.add("x", restart=(0, 0, 60)))
        with self.assertRaises(ValueError):
            self.host.add("x", restart=(1, -1, 60))
        nowhere = self.host.add("/nowhere/to/be/found")
        wrong("E_SPAWN", "/nowhere/to/be/found", nowhere.start)
        self.assertEqual((nowhere.state, nowhere.pid), (State.IDLE, 0))
        with self.assertRaises(Error) as caught:
            await nowhere.list_tools()
        self.assertEqual(caught.exception.name, "E_NOT_STARTED")
        nowhere.remove()
        wrong("E_NO_PEER", "", nowhere.start)
        server = self.start()
        with self.assertRaises(Error):
            await server.call_tool("echo", Raw('{"message":'))
        with self.assertRaises(ValueError):
            await server.call_tool("echo", {"message": float("nan")})
        self.assertEqual(text_of(await server.call_tool("echo", Raw('{"message":"<\\u00e4>"}'))), "<ä>")

    async def test_the_budget_is_spent(self) -> None:
        seen: List[Event] = []
        server = self.start(restart=(mcp_supervised.NO_RESTART, 0, 60), on_event=seen.append)
        stream = server.listen(tools=True)
        with self.assertRaises(RequestError) as caught:
            await server.call_tool("crash", {"signal": int(signal.SIGKILL)})
        self.assertEqual(caught.exception.name, "E_CLOSED")
        await server.closed()
        self.assertEqual([e.signal for e in seen if e.kind == Kind.CLOSE], [signal.SIGKILL])
        self.assertEqual([e.max_restarts for e in seen if e.kind == Kind.EXHAUSTED], [0])
        with self.assertRaises(RequestError) as caught:
            async for _ in stream:
                pass
        self.assertEqual(caught.exception.name, "E_EXHAUSTED")

    async def test_lost_requests_that_only_read_come_back(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            lives = os.path.join(directory, "lives")
            server = self.start("--lives", lives, "--in-life", "1", "--crash-on", "tools/list", retry_lost_requests=True)
            result = await server.list_tools()
            self.assertTrue(result.retried)

    async def test_free_ends_everything(self) -> None:
        server = self.start()
        stream = server.listen(tools=True)
        await stream.__anext__()
        silent = asyncio.ensure_future(server.call_tool("silent"))
        more = asyncio.ensure_future(stream.__anext__())
        await self.until(lambda: self.host._waiting == 1)
        self.host.free()
        self.host.free()
        with self.assertRaises(Error):
            await silent
        with self.assertRaises(Error):
            await more
        await server.closed()
        with self.assertRaises(Error):
            await server.list_tools()

    async def test_a_poll_that_fails_ends_everything(self) -> None:
        server = self.start()
        stream = server.listen(tools=True)
        await stream.__anext__()
        waiting = [asyncio.ensure_future(call) for call in (server.call_tool("silent"), stream.__anext__(), server.closed())]
        await self.until(lambda: self.host._waiting == 1)
        call = self.host._call

        def broken(name: str, *arguments: Any) -> int:
            if name == "poll":
                raise Error(-15, "on purpose")
            return call(name, *arguments)

        self.host._call = broken  # type: ignore[method-assign]
        self.host.wakeup()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        self.assertEqual([getattr(end, "name", end) for end in ended], ["E_IO", "E_IO", None])
        self.host._call = call  # type: ignore[method-assign]
        with self.assertRaises(Error) as caught:
            await server.list_tools()
        self.assertEqual(caught.exception.name, "E_IO")
        self.assertEqual(len(self.problems), 1)
        self.problems.clear()

    async def test_a_forked_child_takes_nothing_along(self) -> None:
        server = self.start()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.host.free()
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        for n in range(10):
            self.assertEqual(text_of(await server.call_tool("echo", {"message": str(n)})), str(n))

    async def flooded(self, **options: Any) -> Tuple[mcp_supervised.Server, mcp_supervised.Stream]:
        """A server whose stream nobody reads, with so much unread that the host takes no more."""
        server = self.start(**options)
        stream = server.listen(uris=["mem://counter"])
        await stream.__anext__()
        # Untracked, so that nobody waits for its answer.
        server.send(
            '{"jsonrpc":"2.0","id":"flood","method":"tools/call","params":{"name":"flood","arguments":{"kind":"updated",'
            f'"count":{20 * mcp_supervised._ENOUGH}}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            '"io.modelcontextprotocol/clientCapabilities":{}}}}'
        )
        await self.until(lambda: not self.host._watched)
        return server, stream

    async def test_a_slow_reader_holds_the_server_back(self) -> None:
        """While nobody waits for an answer, what is queued stays bounded; and nothing is lost."""
        server, stream = await self.flooded()
        self.assertLess(self.host._queued, mcp_supervised._ENOUGH + mcp_supervised._EVENTS)
        # Whoever waits for an answer gets it all the same, behind all of the flood.
        self.assertEqual(text_of(await server.call_tool("echo", {"message": "through"})), "through")
        for _ in range(20 * mcp_supervised._ENOUGH):
            await stream.__anext__()
        self.assertEqual(self.host._queued, 0)

    async def test_a_callback_that_fails(self) -> None:
        def fail(event: Event) -> None:
            raise ValueError("on purpose")

        server = self.start(on_event=fail)
        with self.assertRaises(RequestError):
            await server.call_tool("crash")
        await self.until(lambda: server.state == State.RUNNING)
        self.assertEqual(text_of(await server.call_tool("pid")), str(server.pid))
        self.assertTrue(all(isinstance(p["exception"], ValueError) for p in self.problems) and self.problems)
        self.problems.clear()

    async def test_an_end_comes_behind_a_stream_that_nobody_reads(self) -> None:
        """close and shutdown go on inside poll: who waits for them must not wait for a reader who never comes."""
        server, _ = await self.flooded()
        server.close()
        server.close()
        await asyncio.wait_for(server.closed(), 60)
        self.assertEqual(self.host._waiting, 0)
        await self.flooded()
        await asyncio.wait_for(self.host.shutdown(5), 60)
        self.assertEqual(self.host._waiting, 0)

    async def test_a_stream_that_is_over_holds_nobody_back(self) -> None:
        """What it left unread is nobody's to read any more, cancelled or ended."""
        seen: List[Event] = []
        server, stream = await self.flooded(on_event=seen.append)
        stream.cancel()
        stream.cancel()
        os.kill(server.pid, signal.SIGKILL)
        await self.until(lambda: Kind.RECONNECT in [e.kind for e in seen])
        self.assertEqual(self.host._queued, 0)
        # It can still be read, and that is counted once.
        await stream.__anext__()
        self.assertEqual(self.host._queued, 0)
        other, stream = await self.flooded(restart=(mcp_supervised.NO_RESTART, 0, 60))
        os.kill(other.pid, signal.SIGKILL)
        other.close()
        await asyncio.wait_for(other.closed(), 60)
        self.assertEqual(self.host._queued, 0)
        self.assertEqual(text_of(await server.call_tool("echo", {"message": "goes on"})), "goes on")

    async def test_json_that_python_does_not_parse(self) -> None:
        """Valid JSON of a hostile server, too long or too deep for json.loads: what comes behind it is still told."""
        script = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    token = json.dumps(asked["params"]["_meta"].get("progressToken"))
    many, deep = "9" * 10000, "[" * 60000 + "]" * 60000
    for bad in (many, deep):
        print('{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"x":%s}}' % (token, bad))
    end = '"result":{"resultType":"complete"}' if asked["method"] == "good" else '"error":{"code":-7,"message":"m","data":%s}' % deep
    print('{"jsonrpc":"2.0","id":%d,%s}' % (asked["id"], end), flush=True)
"""
        server = self.host.add(sys.executable, "-c", script, mode=Mode.MODERN)
        server.start()
        told: List[Any] = []
        await asyncio.wait_for(server.request("good", on_progress=told.append), 60)
        with self.assertRaises(mcp_supervised.RemoteError) as caught:
            await asyncio.wait_for(server.request("bad", on_progress=told.append), 60)
        self.assertEqual(caught.exception.code, -7)
        self.assertIn('"message":"m"', caught.exception.body.decode())
        self.assertEqual(len(self.problems) + len(told), 4)
        self.assertTrue(all(isinstance(p["exception"], (ValueError, RecursionError)) for p in self.problems) and self.problems)
        self.problems.clear()

    async def test_numbers_that_do_not_fit_are_refused(self) -> None:
        """ctypes cuts them: -1 restarts would be endless ones, and a very long time a short one."""
        for wrong in ({"restart": (-1, 0, 60)}, {"restart": (1 << 32, 0, 60)}, {"limits": {1: -1}}, {"limits": {1: 1 << 64}}):
            with self.assertRaises(ValueError):
                self.host.add("x", **wrong)
        self.assertEqual(mcp_supervised._ms(1e30), mcp_supervised._UINT64_MAX)
        with self.assertRaises(ValueError):
            self.host.advance(-1)

    async def test_a_server_that_was_never_started_is_over_when_it_is_removed(self) -> None:
        server = self.host.add("x")
        server.remove()
        await asyncio.wait_for(server.closed(), 60)

    async def test_wakeup_from_threads(self) -> None:
        server = self.start()

        def ring() -> None:
            for _ in range(100):
                self.host.wakeup()

        threads = [threading.Thread(target=ring) for _ in range(10)]
        for thread in threads:
            thread.start()
        for n in range(100):
            self.assertEqual(text_of(await server.call_tool("echo", {"message": str(n)})), str(n))
        for thread in threads:
            thread.join()

    async def test_children_of_our_own(self) -> None:
        """asyncio reaps its children, the library its own."""
        server = self.start()
        for code in range(20):
            child = await asyncio.create_subprocess_exec("/bin/sh", "-c", f"exit {code}")
            with self.assertRaises(RequestError):
                await server.call_tool("crash")
            self.assertEqual(await child.wait(), code)
            await self.until(lambda: server.state == State.RUNNING)


class OlderServers(Test):
    """Servers of revisions before 2026-07-28: the handshake, emulation, and questions to the client."""

    CAN: Any = {"elicitation": {}, "sampling": {}}
    ELICIT = {"method": "elicitation/create", "params": {"message": "name?"}}

    def start(self, *args: str, **options: Any) -> mcp_supervised.Server:
        return super().start(*args, "--legacy", "2025-11-25", client_capabilities=self.CAN, **options)

    # What Test has runs here as well, with older servers, but for the record of what was written, and for a flood that the demo
    # server keeps for streams of today.
    test_typed_calls = None  # type: ignore[assignment]
    test_a_slow_reader_holds_the_server_back = None  # type: ignore[assignment]
    test_an_end_comes_behind_a_stream_that_nobody_reads = None  # type: ignore[assignment]
    test_a_stream_that_is_over_holds_nobody_back = None  # type: ignore[assignment]

    async def test_what_the_library_makes(self) -> None:
        seen: List[Event] = []
        server = self.start(on_event=seen.append)
        found = await server.discover()
        self.assertTrue(found.flags & Flag.EMULATED)
        self.assertIn("tools", found.json()["capabilities"])
        self.assertEqual([(e.kind, e.era, e.payload) for e in seen], [(Kind.READY, Era.LEGACY, b"2025-11-25")])
        stream = server.listen(uris=["mem://counter"])
        acknowledged = await stream.__anext__()
        self.assertTrue(acknowledged.flags & Flag.EMULATED)
        await server.call_tool("bump")
        updated = await stream.__anext__()
        self.assertEqual((updated.method, updated.json()["uri"]), ("notifications/resources/updated", "mem://counter"))
        with self.assertRaises(RequestError):
            await server.call_tool("crash")
        await self.until(lambda: server.state == State.RUNNING)
        self.assertTrue((await stream.__anext__()).flags & Flag.EMULATED)
        await server.call_tool("bump")
        self.assertEqual((await stream.__anext__()).method, "notifications/resources/updated")

    async def test_questions(self) -> None:
        async def ask(on_request: Any) -> Any:
            server = self.start(on_request=on_request)
            answer = text_of(await server.call_tool("ask_client", self.ELICIT))
            server.close()
            await server.closed()
            return json.loads(answer)

        def broken(method: str, params: Any) -> Any:
            raise KeyError(method)

        def refuses(method: str, params: Any) -> Any:
            raise mcp_supervised.Refusal(-7, "no \"names\"", {"why": [1]})

        async def answers(method: str, params: Any) -> Any:
            await asyncio.sleep(0)
            return {"action": "accept", "content": {"asked": params["message"]}}

        answer = await ask(answers)
        self.assertEqual(answer["result"], {"action": "accept", "content": {"asked": "name?"}})
        answer = await ask(refuses)
        self.assertEqual(answer["error"], {"code": -7, "message": "no \"names\"", "data": {"why": [1]}})
        self.assertEqual((await ask(None))["error"]["code"], -32601)
        self.assertEqual(self.problems, [])
        # What is no answer is told to the server and to the loop.
        for wrong in (broken, lambda method, params: [1], lambda method, params: {1: object()}):
            self.assertEqual((await ask(wrong))["error"]["code"], -32603)
            self.assertEqual(len(self.problems), 1)
            self.problems.clear()

    async def test_an_answer_for_a_dead_server(self) -> None:
        asked, die = asyncio.Event(), asyncio.Event()

        async def answers(method: str, params: Any) -> Any:
            asked.set()
            await die.wait()
            return {"action": "decline"}

        server = self.start(on_request=answers)
        lost = asyncio.ensure_future(server.call_tool("ask_client", self.ELICIT))
        await asked.wait()
        os.kill(server.pid, signal.SIGKILL)
        with self.assertRaises(RequestError):
            await lost
        await self.until(lambda: server.state == State.RUNNING)
        die.set()
        await self.until(lambda: not server._answers)
        self.assertEqual(text_of(await server.call_tool("echo", {"message": "goes on"})), "goes on")


class ManualClock(unittest.IsolatedAsyncioTestCase):
    async def test_the_clock_is_the_hosts(self) -> None:
        async with Host(manual_clock=True) as host:
            seen: "asyncio.Queue[Event]" = asyncio.Queue()
            server = host.add(SERVER, restart=(3, 3600, 86400), on_event=seen.put_nowait, mode=Mode.MODERN)
            server.start()
            with self.assertRaises(RequestError):
                await server.call_tool("crash")
            self.assertEqual(server.state, State.WAITING)
            host.advance(3600)
            while (event := await seen.get()).kind != Kind.RECONNECT:
                self.assertNotEqual(event.kind, Kind.EXHAUSTED)
            self.assertFalse(event.flags & Flag.FINAL)
            result = await server.call_tool("echo", {"message": "an hour later"})
            self.assertEqual(text_of(result), "an hour later")


if __name__ == "__main__":
    unittest.main()
