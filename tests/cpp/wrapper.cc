/* What include/mcp_supervised.hpp adds to the C interface: ownership, errors with their text, typed calls. */
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <mcp_supervised.hpp>

using supervised::event;
using supervised::handle;
using supervised::object;
using supervised::peer;
using supervised::spec;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<handle> && !std::is_copy_assignable_v<handle>);
static_assert(std::is_nothrow_move_constructible_v<handle> && std::is_nothrow_move_assignable_v<handle>);
static_assert(!std::is_copy_constructible_v<spec> && std::is_nothrow_move_constructible_v<spec>);
static_assert(std::is_trivially_copyable_v<peer> && std::is_trivially_copyable_v<event>);
static_assert(std::is_same_v<decltype(std::declval<event>().body()), std::string_view>);

#define CHECK(is_true) ((is_true) ? (void)0 : failed(__LINE__, #is_true))

namespace {

[[noreturn]] void failed(int line, const char *what) {
    std::fprintf(stderr, "wrapper.cc:%d: not true: %s\n", line, what);
    std::exit(EXIT_FAILURE);
}

const char *server;

handle make() {
    auto host = handle::create();
    CHECK(host && *host);
    return std::move(*host);
}

/* The event that ends that request or stream. `then` sees it while it lives. */
template <class Then>
void await(handle &host, supervised::request_id id, Then then) {
    for (;;) {
        auto events = host.poll(60s);
        CHECK(events && !events.empty());
        bool found = false;
        for (const event &e : events) {
            if (e.completes(id)) {
                then(e);
                found = true;
            }
        }
        if (found) {
            return;
        }
    }
}

void moves() {
    handle first = make();
    auto server_of = first.add(spec(server));
    CHECK(server_of && server_of->start());
    handle second = std::move(first);
    CHECK(!first && second && first.get() == nullptr);
    first = std::move(second); /* swapped: what `first` had goes with `second` */
    CHECK(first && !second);
    auto tools = server_of->list_tools();
    CHECK(tools);
    await(first, *tools, [](const event &e) { CHECK(e.is_result() && e.body().front() == '{'); });

    mcp_supervised *raw = first.release();
    CHECK(!first && raw != nullptr);
    handle third(raw);
    CHECK(third.free() && !third && third.free());

    /* An empty one is refused by everything, and says so. */
    handle empty;
    CHECK(empty.fd().status() == MCP_SUPERVISED_E_NULL && *empty.fd() == -1);
    CHECK(empty.poll(0ms).status() == MCP_SUPERVISED_E_NULL && empty.poll(0ms).empty());
    CHECK(empty.add(spec(server)).status() == MCP_SUPERVISED_E_NULL && !empty.add(spec(server)).text().empty());
    CHECK(peer().start().status() == MCP_SUPERVISED_E_NULL);

    spec one("one"), two = std::move(one);
    CHECK(one.get() == nullptr && two.get() != nullptr && two.check());
    one = std::move(two);
    CHECK(one.get() != nullptr && two.get() == nullptr);
    CHECK(two.arg("to nothing").check().status() == MCP_SUPERVISED_E_NULL);
}

void errors_tell() {
    handle host = make();
    const auto wrong = [&](const spec &how, std::int32_t status, std::string_view part) {
        auto added = host.add(how);
        CHECK(!added && added.status() == status && added->number() == 0);
        CHECK(added.text().find(part) != std::string::npos);
    };
    wrong(spec(""), MCP_SUPERVISED_E_INVALID, "program");
    wrong(std::move(spec(server).arg(std::string_view("a\0b", 3)).arg("fine")), MCP_SUPERVISED_E_INVALID, "argument");
    wrong(std::move(spec(server).restart(0, 1ms, 1s)), MCP_SUPERVISED_E_INVALID, "NO_RESTART");
    wrong(std::move(spec(server).restart(1, -1ms, 1s)), MCP_SUPERVISED_E_INVALID, "below 0");
    wrong(std::move(spec(server).stop_grace(1ms, -1ms)), MCP_SUPERVISED_E_INVALID, "below 0");
    wrong(std::move(spec(server).request_timeouts(-1ms, 1ms)), MCP_SUPERVISED_E_INVALID, "below 0");
    wrong(std::move(spec(server).start_timeouts(-1ms, 1ms)), MCP_SUPERVISED_E_INVALID, "below 0");
    wrong(std::move(spec(server).env("", "x")), MCP_SUPERVISED_E_INVALID, "environment");

    auto nowhere = host.add(spec("/nowhere/to/be/found"));
    CHECK(nowhere);
    const auto start = nowhere->start();
    CHECK(!start && start.status() == MCP_SUPERVISED_E_SPAWN && std::string_view(start.name()) == "E_SPAWN");
    CHECK(start.text().find("/nowhere/to/be/found") != std::string::npos);
    CHECK(nowhere->list_tools().status() == MCP_SUPERVISED_E_NOT_STARTED);
    CHECK(*nowhere->state() == MCP_SUPERVISED_STATE_IDLE && *nowhere->pid() == 0);
    CHECK(nowhere->remove() && nowhere->remove().status() == MCP_SUPERVISED_E_NO_PEER);
    CHECK(nowhere->state().status() == MCP_SUPERVISED_E_NO_PEER);

    CHECK(host.poll(-2ms).status() == MCP_SUPERVISED_E_INVALID);
    CHECK(host.advance(1s).status() == MCP_SUPERVISED_E_INVALID);
    CHECK(host.advance(-1s).status() == MCP_SUPERVISED_E_INVALID);
    CHECK(host.shutdown(-1ms).status() == MCP_SUPERVISED_E_INVALID);
    supervised::request_options early;
    early.timeout = -1ms;
    CHECK(nowhere->list_tools({}, early).status() == MCP_SUPERVISED_E_INVALID);
}

void objects_are_json() {
    CHECK(object().str() == "{}");
    CHECK(object().text("a", "").str() == R"({"a":""})");
    CHECK(object().text("\"", "\\\n\x01\x7f\xc3\xa4").str() == "{\"\\\"\":\"\\\\\\u000a\\u0001\x7f\xc3\xa4\"}");
    CHECK(object().number("n", -5).boolean("yes", true).boolean("no", false).raw("r", "[1]").str() ==
          R"({"n":-5,"yes":true,"no":false,"r":[1]})");
    CHECK(object::quoted("x\"y") == R"("x\"y")");
    supervised::filter everything;
    everything.tools = everything.prompts = everything.resources = true;
    everything.uris = {"a", "b\""};
    CHECK(everything.str() == R"({"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,)"
                              R"("resourceSubscriptions":["a","b\""]})");
}

/* Every typed call once. What runs this looks at the server's record of its input. */
void typed_calls(const char *record) {
    handle host = make();
    auto added = host.add(std::move(spec(server).args({"--record", record}).mode(MCP_SUPERVISED_MODE_MODERN)));
    CHECK(added && added->start());
    const peer to = *added;
    supervised::request_options more;
    more.meta = R"({"k":1})";
    more.input_responses = R"({"name":{"action":"decline"}})";
    more.request_state = R"("state-1")";
    more.user_data = 7;
    const std::pair<const char *, supervised::result<supervised::request_id>> calls[] = {
        {"discover", to.discover()},
        {"tools", to.list_tools()},
        {"tools, next", to.list_tools("")},
        {"resources", to.list_resources("c")},
        {"templates", to.list_resource_templates("c")},
        {"prompts", to.list_prompts("c")},
        {"call", to.call_tool("ask", "{}", more)},
        {"read", to.read_resource("mem://counter", more)},
        {"get", to.get_prompt("greet", R"({"name":"x"})")},
        {"complete", to.complete_prompt("greet", "name", "A", R"({"other":"x"})")},
        {"complete template", to.complete_resource("mem://{a}", "a", "")},
    };
    for (const auto &[what, call] : calls) {
        if (!call) {
            std::fprintf(stderr, "%s: %s\n", what, call.text().c_str());
        }
        CHECK(call);
    }
    await(host, *calls[10].second, [](const event &e) { CHECK(e.is_result() && e.user_data == 0); });
    CHECK(to.notify("notifications/cancelled", R"({"requestId":999})"));
    auto last = to.call_tool("echo", object().text("message", "over").str());
    CHECK(last);
    await(host, *last, [&](const event &e) { CHECK(host.peer_of(e) == to && e.body().find("over") != e.body().npos); });
    CHECK(!to.server_info()->stale && to.server_info()->json.find("mcp-supervised-demo") != std::string_view::npos);
}

void clock_and_wakeup() {
    supervised::config manual;
    manual.manual_clock = true;
    manual.log_level = MCP_SUPERVISED_LOG_ERROR;
    auto made = handle::create(manual);
    CHECK(made && made->advance(1h) && made->wakeup());
    auto events = made->poll(supervised::never, 1);
    CHECK(events.size() == 1 && events.begin()->kind == MCP_SUPERVISED_EVENT_WAKEUP);
    CHECK(made->poll(0ms, 0).empty() && made->poll(0ms, 1000));
    CHECK(*made->fd() >= 0 && made->shutdown(supervised::never));
    manual.log_level = MCP_SUPERVISED_LOG_SERVER;
    auto refused = handle::create(manual);
    CHECK(!refused && refused.status() == MCP_SUPERVISED_E_INVALID && !refused.text().empty() && !*refused);
}

}  // namespace

int main(int argc, char **argv) {
    CHECK(argc == 3);
    server = argv[1];
    moves();
    errors_tell();
    objects_are_json();
    typed_calls(argv[2]);
    clock_and_wakeup();
    std::printf("done\n");
    return EXIT_SUCCESS;
}
