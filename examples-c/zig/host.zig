//! A host in Zig: lists a server's tools, keeps a stream open, lets the server crash in the middle of a call, and goes on with the
//! replacement. The C header is imported as it is. Written for Zig 0.14.1.
//!
//!     zig build-exe host.zig -lc -I../../include -lmcp_supervised
//!     host [COMMAND [ARGUMENT]...]
//!
//! Without arguments the server is the demo server, which then has to be in PATH. Exits with 0 if everything came as it should.

const std = @import("std");
const c = @cImport(@cInclude("mcp_supervised.h"));

/// What a call of the library can say; its text is printed where it happens, since the next call may replace it.
const Error = error{ Refused, Unexpected, Hangs };

fn slice(at: [*c]const u8, len: usize) []const u8 {
    return if (at == null) "" else at[0..len];
}

/// The handle, and one server in it.
const Host = struct {
    handle: *c.mcp_supervised,
    server: c.mcp_supervised_peer = 0,
    events: [64]c.mcp_supervised_event = undefined,
    ready: []const c.mcp_supervised_event = &.{},

    fn init() Error!Host {
        var why: [256]u8 = undefined;
        var handle: ?*c.mcp_supervised = null;
        if (c.mcp_supervised_new(null, &handle, &why, why.len) < 0) {
            std.debug.print("new: {s}\n", .{std.mem.sliceTo(&why, 0)});
            return Error.Refused;
        }
        return .{ .handle = handle.? };
    }

    fn deinit(host: *Host) void {
        _ = c.mcp_supervised_free(host.handle);
    }

    fn check(host: *Host, what: []const u8, status: i32) Error!i32 {
        if (status >= 0) return status;
        var text: [*c]const u8 = null;
        var len: usize = 0;
        _ = c.mcp_supervised_last_error(host.handle, &text, &len);
        std.debug.print("{s}: {s}: {s}\n", .{ what, c.mcp_supervised_status_name(status), slice(text, len) });
        return Error.Refused;
    }

    fn launch(host: *Host, command: []const [:0]const u8) Error!void {
        var spec: ?*c.mcp_supervised_spec = null;
        _ = try host.check("spec_new", c.mcp_supervised_spec_new(command[0].ptr, command[0].len, &spec));
        defer c.mcp_supervised_spec_free(spec);
        for (command[1..]) |arg| _ = try host.check("spec_arg", c.mcp_supervised_spec_arg(spec, arg.ptr, arg.len));
        const name = "zig-host";
        const version = "1.0";
        _ = try host.check("client_info", c.mcp_supervised_spec_client_info(spec, name, name.len, version, version.len));
        const can = "{\"elicitation\":{},\"sampling\":{}}";
        _ = try host.check("client_capabilities", c.mcp_supervised_spec_client_capabilities(spec, can, can.len));
        _ = try host.check("restart", c.mcp_supervised_spec_restart(spec, 3, 50, 60_000));
        _ = try host.check("add", c.mcp_supervised_add(host.handle, spec, 0, &host.server));
        _ = try host.check("start", c.mcp_supervised_start(host.handle, host.server));
    }

    /// Sends a request. `params` is the text of a JSON object.
    fn request(host: *Host, method: []const u8, params: []const u8) Error!u64 {
        var id: c.mcp_supervised_request_id = 0;
        _ = try host.check(method, c.mcp_supervised_request(
            host.handle,
            host.server,
            method.ptr,
            method.len,
            params.ptr,
            params.len,
            null,
            &id,
        ));
        return id;
    }

    fn listen(host: *Host, filter: []const u8) Error!u64 {
        var id: c.mcp_supervised_request_id = 0;
        const status = c.mcp_supervised_listen(host.handle, host.server, filter.ptr, filter.len, 0, &id);
        _ = try host.check("listen", status);
        return id;
    }

    /// The next event. What the one before lent is over with the poll that may be made here.
    fn next(host: *Host) Error!*const c.mcp_supervised_event {
        while (host.ready.len == 0) {
            const size = @sizeOf(c.mcp_supervised_event);
            const status = c.mcp_supervised_poll(host.handle, &host.events, size, host.events.len, 60_000);
            const count: usize = @intCast(try host.check("poll", status));
            if (count == 0) return Error.Hangs;
            host.ready = host.events[0..count];
        }
        defer host.ready = host.ready[1..];
        return &host.ready[0];
    }

    /// Whether that event is a question of the server, which is answered then. Servers of older revisions ask back.
    fn answer(host: *Host, event: *const c.mcp_supervised_event) Error!bool {
        if (event.kind != c.MCP_SUPERVISED_EVENT_MESSAGE) return false;
        if (event.message_kind != c.MCP_SUPERVISED_MESSAGE_REQUEST or event.request == 0) return false;
        const result = "{\"action\":\"accept\",\"content\":{\"name\":\"Grace\"}}";
        const why = "no model here";
        if (std.mem.eql(u8, slice(event.method, event.method_len), "elicitation/create")) {
            const status = c.mcp_supervised_respond(host.handle, host.server, event.request, result, result.len);
            _ = try host.check("respond", status);
        } else {
            const status = c.mcp_supervised_respond_error(host.handle, host.server, event.request, -1, why, why.len, null, 0);
            _ = try host.check("respond_error", status);
        }
        return true;
    }

    /// The next event of that kind; what comes before it does not matter.
    fn await_kind(host: *Host, kind: c_uint) Error!*const c.mcp_supervised_event {
        while (true) {
            const event = try host.next();
            if (event.kind == kind) return event;
        }
    }

    /// The event that ends that request or stream.
    fn await_end(host: *Host, id: u64) Error!*const c.mcp_supervised_event {
        while (true) {
            const event = try host.next();
            if (try host.answer(event)) continue;
            if (event.request == id and event.flags & c.MCP_SUPERVISED_FLAG_COMPLETE != 0) return event;
        }
    }

    /// The raw JSON of the result of a request, valid until the next poll.
    fn ask(host: *Host, method: []const u8, params: []const u8) Error![]const u8 {
        const event = try host.await_end(try host.request(method, params));
        const is_result = event.kind == c.MCP_SUPERVISED_EVENT_MESSAGE and
            event.message_kind == c.MCP_SUPERVISED_MESSAGE_RESULT;
        try must(is_result, method, slice(event.payload, event.payload_len));
        return slice(event.body, event.body_len);
    }

    /// The next notification of that stream.
    fn notification(host: *Host, stream: u64, method: []const u8) Error!void {
        while (true) {
            const event = try host.next();
            if (event.request != stream) continue;
            return must(std.mem.eql(u8, slice(event.method, event.method_len), method), method, slice(event.payload, event.payload_len));
        }
    }
};

fn must(is_so: bool, what: []const u8, seen: []const u8) Error!void {
    if (is_so) return;
    std.debug.print("failed: {s}: {s}\n", .{ what, seen });
    return Error.Unexpected;
}

fn contains(text: []const u8, part: []const u8) bool {
    return std.mem.indexOf(u8, text, part) != null;
}

pub fn main() !void {
    var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);
    defer arena.deinit();
    const arguments = try std.process.argsAlloc(arena.allocator());
    const command: []const [:0]const u8 = if (arguments.len > 1) arguments[1..] else &.{"mcp-supervised-demo-server"};

    var host = try Host.init();
    defer host.deinit();
    try host.launch(command);
    const first = try host.check("pid", c.mcp_supervised_pid(host.handle, host.server));

    const era = (try host.await_kind(c.MCP_SUPERVISED_EVENT_READY)).era;
    const tools = try host.ask(c.MCP_SUPERVISED_METHOD_TOOLS_LIST, "{}");
    try must(contains(tools, "\"name\":\"echo\""), "tools", tools);
    const call = c.MCP_SUPERVISED_METHOD_TOOLS_CALL;
    const echo = try host.ask(call, "{\"name\":\"echo\",\"arguments\":{\"message\":\"hello\"}}");
    try must(contains(echo, "\"text\":\"hello\""), "echo", echo);
    if (era == c.MCP_SUPERVISED_ERA_LEGACY) {
        const elicit = "{\"name\":\"ask_client\",\"arguments\":{\"method\":\"elicitation/create\",\"params\":{\"message\":\"name?\"}}}";
        const answer = try host.ask(call, elicit);
        try must(contains(answer, "Grace"), "the answer", answer);
        const refusal = try host.ask(call, "{\"name\":\"ask_client\",\"arguments\":{\"method\":\"sampling/createMessage\"}}");
        try must(contains(refusal, "no model"), "the refusal", refusal);
    }
    const stream = try host.listen("{\"toolsListChanged\":true}");
    try host.notification(stream, "notifications/subscriptions/acknowledged");

    // The server dies in the middle of a call, which is lost and not sent again.
    const lost = try host.request(call, "{\"name\":\"crash\",\"arguments\":{\"code\":7}}");
    const close = try host.await_kind(c.MCP_SUPERVISED_EVENT_CLOSE);
    try must(close.exit_code == 7 and close.flags & c.MCP_SUPERVISED_FLAG_WILL_RECONNECT != 0, "CLOSE", "");
    const end = try host.await_end(lost);
    try must(end.status == c.MCP_SUPERVISED_E_CLOSED, "the call is lost", slice(end.payload, end.payload_len));
    const replaced = try host.await_kind(c.MCP_SUPERVISED_EVENT_RECONNECT);
    try must(replaced.pid != first and replaced.life == 2, "RECONNECT", "");
    std.debug.print("replaced: pid {d} after {d}\n", .{ replaced.pid, first });

    // The stream goes on under its id.
    try host.notification(stream, "notifications/subscriptions/acknowledged");
    _ = try host.request(call, "{\"name\":\"flip\",\"arguments\":{}}");
    try host.notification(stream, "notifications/tools/list_changed");
    _ = try host.check("cancel", c.mcp_supervised_cancel(host.handle, host.server, stream, null, 0));
    const cancelled = try host.await_end(stream);
    try must(cancelled.status == c.MCP_SUPERVISED_E_CANCELLED, "the end of the stream", "");

    _ = try host.check("close", c.mcp_supervised_close(host.handle, host.server));
    while ((try host.next()).flags & c.MCP_SUPERVISED_FLAG_FINAL == 0) {}
    _ = try host.check("remove", c.mcp_supervised_remove(host.handle, host.server));
    std.debug.print("everything was seen\n", .{});
}
