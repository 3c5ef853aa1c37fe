/*
 * A host in C++: asks a server for all it has, keeps a stream open, lets the server crash in the middle of a call, and goes on
 * with the replacement. Written with include/mcp_supervised.hpp; no exceptions, no threads.
 *
 *     host [COMMAND [ARGUMENT]...]
 *
 * Without arguments the server is the demo server. Exits with 0 if everything came as it should.
 */
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <mcp_supervised.hpp>

#ifndef DEMO_SERVER
#define DEMO_SERVER "mcp-supervised-demo-server"
#endif

namespace {

using supervised::event;
using supervised::outcome;
using supervised::request_id;
using supervised::result;

[[noreturn]] void failed(std::string_view what, std::string_view why) {
    std::fprintf(stderr, "failed: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(), static_cast<int>(why.size()),
                 why.data());
    std::exit(EXIT_FAILURE);
}

/* A call that has to succeed. */
void check(std::string_view what, const outcome &call) {
    if (!call) {
        failed(what, std::string(call.name()) + ": " + call.text());
    }
}

template <class T>
T check(std::string_view what, result<T> call) {
    check(what, static_cast<const outcome &>(call));
    return std::move(*call);
}

void must(std::string_view what, bool is_so, std::string_view seen = {}) {
    if (!is_so) {
        failed(what, seen);
    }
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/* How a request ended. Payloads live until the next poll, so what is kept is copied. */
struct answer {
    bool is_result = false;
    std::int32_t status = 0;
    std::uint32_t flags = 0;
    std::string body; /* of a result or of the server's error; otherwise the text */
};

/* A host that does one thing after the other, and takes note of what happens meanwhile. */
class session {
public:
    session(supervised::handle host, supervised::peer server) : host_(std::move(host)), server_(server) {}

    const supervised::peer &server() const { return server_; }

    /* Polls until that request or stream is over. */
    answer await(std::string_view what, result<request_id> call) {
        const request_id id = check(what, std::move(call));
        answer how;
        until([&](const event &e) {
            if (!e.completes(id)) {
                return false;
            }
            how.is_result = e.is_result();
            how.status = e.status;
            how.flags = e.flags;
            how.body = e.kind == MCP_SUPERVISED_EVENT_MESSAGE ? e.body() : e.payload();
            return true;
        });
        std::printf("%.*s: %s\n", static_cast<int>(what.size()), what.data(),
                    how.is_result ? "answered" : how.body.c_str());
        return how;
    }

    /* The same for one that has to be answered with a result. */
    std::string ask(std::string_view what, result<request_id> call) {
        const answer how = await(what, std::move(call));
        must(what, how.is_result, how.body);
        return how.body;
    }

    /* Polls until there is an event of which that is true. */
    template <class Wanted>
    void until(Wanted is_it) {
        for (;;) {
            while (next_ != end_) {
                const event &e = *next_++;
                note(e);
                if (is_it(e)) {
                    return;
                }
            }
            auto events = host_.poll(std::chrono::minutes(1));
            check("poll", events);
            must("poll", !events.empty(), "nothing has happened for a minute");
            next_ = events.begin();
            end_ = events.end();
        }
    }

    /* Notifications of a stream wait for nobody: they are counted as they come. */
    void count(request_id stream) { stream_ = stream; }
    int acknowledged = 0, changed = 0, life = 1, closes = 0;
    std::uint32_t era = 0;
    void count_up_to(const int &counter, int wanted) {
        while (counter < wanted) {
            until([](const event &) { return true; });
        }
    }

private:
    void note(const event &e) {
        switch (e.kind) {
            case MCP_SUPERVISED_EVENT_READY:
                era = e.era;
                std::printf("READY: it speaks %.*s\n", static_cast<int>(e.payload().size()), e.payload().data());
                break;
            case MCP_SUPERVISED_EVENT_MESSAGE:
                if (e.asks() && e.method() == "elicitation/create") {
                    check("respond", server_.respond(e, R"({"action":"accept","content":{"name":"Grace"}})"));
                } else if (e.asks()) {
                    check("respond_error", server_.respond_error(e.request, -1, "no model here"));
                }
                if (e.request == stream_ && e.message_kind == MCP_SUPERVISED_MESSAGE_NOTIFICATION) {
                    acknowledged += e.method() == "notifications/subscriptions/acknowledged";
                    changed += e.method() == "notifications/tools/list_changed";
                }
                break;
            case MCP_SUPERVISED_EVENT_CLOSE:
                closes++;
                std::printf("CLOSE: pid %d, exit code %d, signal %d, %s\n", e.pid, e.exit_code, e.signal,
                            e.has(MCP_SUPERVISED_FLAG_WILL_RECONNECT) ? "will be replaced" : "for good");
                break;
            case MCP_SUPERVISED_EVENT_RECONNECT:
                life = static_cast<int>(e.life);
                std::printf("RECONNECT: pid %d, life %d\n", e.pid, life);
                break;
            default: break; /* later versions may have more kinds */
        }
    }

    supervised::handle host_;
    supervised::peer server_;
    request_id stream_ = 0;
    const event *next_ = nullptr, *end_ = nullptr;
};

session launch(int argc, char **argv) {
    using namespace std::chrono_literals;
    auto host = check("new", supervised::handle::create());
    supervised::spec how(argc > 1 ? argv[1] : DEMO_SERVER);
    for (int i = 2; i < argc; i++) {
        how.arg(argv[i]);
    }
    how.client_info("cpp-host", "1.0").restart(3, 50ms, 60s).retry_lost_requests();
    how.client_capabilities(R"({"elicitation":{},"sampling":{}})");
    const auto server = check("add", host.add(how));
    check("start", server.start());
    return session(std::move(host), server);
}

void ask_for_everything(session &with) {
    const auto &server = with.server();
    must("capabilities", contains(with.ask("discover", server.discover()), "\"tools\""));
    must("known", contains(check("server_capabilities", server.server_capabilities()).json, "\"tools\""));
    must("tools", contains(with.ask("list_tools", server.list_tools()), "\"name\":\"echo\""));
    must("resources", contains(with.ask("list_resources", server.list_resources()), "mem://counter"));
    with.ask("list_resource_templates", server.list_resource_templates());
    must("content", contains(with.ask("read_resource", server.read_resource("mem://counter")), "\"text\":\"0\""));
    must("prompts", contains(with.ask("list_prompts", server.list_prompts()), "\"greet\""));
    const auto arguments = supervised::object().text("name", "Ada \"the first\"").str();
    must("prompt", contains(with.ask("get_prompt", server.get_prompt("greet", arguments)), "Ada \\\"the first\\\""));
    must("proposals", contains(with.ask("complete_prompt", server.complete_prompt("greet", "name", "A")), "\"Alan\""));
    const auto message = supervised::object().text("message", "tab\there").str();
    must("echo", contains(with.ask("call_tool", server.call_tool("echo", message)), "tab\\there"));

    /* What the server refuses is its answer, and what the library refuses is no request at all. */
    const auto refused = with.await("call_tool nonsense", server.call_tool("no such tool"));
    must("an error of the server", !refused.is_result && refused.status == 0, refused.body);
    const auto bad = server.call_tool("echo", "{");
    must("bad JSON", bad.status() == MCP_SUPERVISED_E_INVALID && !bad.text().empty());
}

/* A server may need to know more. Today it says so as a result: the answers go with the same question, and with the state that
   came. Servers of older revisions ask back, which session::note answers. */
void be_asked(session &with) {
    const auto &server = with.server();
    if (with.era == MCP_SUPERVISED_ERA_LEGACY) {
        const auto elicit = R"({"method":"elicitation/create","params":{"message":"name?"}})";
        must("the answer", contains(with.ask("call_tool ask_client", server.call_tool("ask_client", elicit)), "Grace"));
        const auto sample = R"({"method":"sampling/createMessage"})";
        must("the refusal", contains(with.ask("call_tool ask_client", server.call_tool("ask_client", sample)), "no model"));
        return;
    }
    const auto asked = with.await("call_tool ask", server.call_tool("ask"));
    must("more input is wanted", (asked.flags & MCP_SUPERVISED_FLAG_INPUT_REQUIRED) != 0, asked.body);
    const std::string_view body = asked.body, key = "\"requestState\":";
    const auto at = body.find(key) + key.size();
    supervised::request_options options;
    options.request_state = body.substr(at, body.find('"', at + 1) + 1 - at);
    options.input_responses = R"({"name":{"action":"accept","content":{"name":"Grace"}}})";
    must("the answer", contains(with.ask("call_tool ask again", server.call_tool("ask", "{}", options)), "Grace"));
}

void crash_and_recover(session &with) {
    const auto &server = with.server();
    supervised::filter tools;
    tools.tools = true;
    const request_id stream = check("listen", server.listen(tools));
    with.count(stream);
    with.count_up_to(with.acknowledged, 1);
    const std::string first = with.ask("call_tool pid", server.call_tool("pid"));

    const answer lost = with.await("call_tool crash", server.call_tool("crash"));
    must("the call is lost", !lost.is_result && lost.status == MCP_SUPERVISED_E_CLOSED, lost.body);
    must("and was read", (lost.flags & MCP_SUPERVISED_FLAG_UNREAD) == 0);
    must("CLOSE was told", with.closes == 1);
    const auto early = server.list_tools();
    must("nothing new while there is no server", early.status() == MCP_SUPERVISED_E_CLOSED, early.text());

    with.until([](const event &e) { return e.kind == MCP_SUPERVISED_EVENT_RECONNECT; });
    with.count_up_to(with.acknowledged, 2);
    must("another process", with.ask("call_tool pid", server.call_tool("pid")) != first);
    must("the second life", with.life == 2);
    with.ask("call_tool flip", server.call_tool("flip"));
    with.count_up_to(with.changed, 1);
    std::printf("the stream goes on under its id\n");

    /* Something slow, called off. */
    const auto slow = server.call_tool("sleep", R"({"ms":60000})");
    check("cancel", server.cancel(check("call_tool sleep", slow), "not needed any more"));
    const auto ended = with.await("cancelled", slow);
    must("cancelled", ended.status == MCP_SUPERVISED_E_CANCELLED, ended.body);
    check("cancel the stream", server.cancel(stream));
    with.until([&](const event &e) { return e.completes(stream); });
}

void end(session &with) {
    check("close", with.server().close());
    with.until([](const event &e) { return e.has(MCP_SUPERVISED_FLAG_FINAL); });
    must("two lives, two ends", with.closes == 2);
    check("remove", with.server().remove());
}

}  // namespace

int main(int argc, char **argv) {
    session with = launch(argc, argv);
    ask_for_everything(with);
    be_asked(with);
    crash_and_recover(with);
    end(with);
    std::printf("everything was seen\n");
    return EXIT_SUCCESS;
}
