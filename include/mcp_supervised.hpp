/*
 * mcp_supervised for C++17 and later: a thin skin over mcp_supervised.h, which stays the manual. What a call means, which
 * errors it has and how long memory lives is written there, at the function of the same name.
 *
 * - A `handle` and a `spec` own what they were made with; both can be moved and not copied. A `peer` is a name, as cheap to copy
 *   as a number; it is of no use once its handle is gone.
 * - Nothing throws but what std::string throws when memory ends; it compiles with -fno-exceptions -fno-rtti. A call gives an
 *   `outcome`, or a `result` that has a value as well. Both are true on success, and tell `status()` and `text()` otherwise.
 * - Constants are those of C: MCP_SUPERVISED_EVENT_CLOSE, MCP_SUPERVISED_E_CLOSED, MCP_SUPERVISED_FLAG_COMPLETE.
 * - Times are std::chrono::milliseconds; `never` stands for MCP_SUPERVISED_NO_TIMEOUT, and for a poll that waits for ever.
 * - JSON goes in and out as text: bring the parser you like. `object` writes what the typed calls need.
 *
 *     auto host = supervised::handle::create();
 *     auto server = host->add(supervised::spec("my-mcp-server").arg("--stdio"));
 *     server->start();
 *     auto tools = server->list_tools();
 *     while (auto events = host->poll(supervised::never)) {
 *         for (const supervised::event &e : events) {
 *             if (e.completes(*tools)) use(e.body());
 *         }
 *     }
 *
 * License: MIT OR Apache-2.0.
 */

#ifndef MCP_SUPERVISED_HPP
#define MCP_SUPERVISED_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mcp_supervised.h"

namespace supervised {

using std::chrono::milliseconds;

/** Without end: no timeout, no grace that ends, a poll that waits until something happens. */
inline constexpr milliseconds never = milliseconds::max();

/** Whether a call succeeded, and if not, why. */
class [[nodiscard]] outcome {
public:
    outcome() = default;
    outcome(std::int32_t status, std::string text) : status_(status), text_(std::move(text)) {}

    explicit operator bool() const noexcept { return status_ >= 0; }

    /** What the C function returned: 0 or more, or a negative mcp_supervised_status. */
    std::int32_t status() const noexcept { return status_; }

    /** The name of the status, for example "E_SPAWN". */
    const char *name() const noexcept { return mcp_supervised_status_name(status_); }

    /** What went wrong, in words; empty on success. */
    const std::string &text() const noexcept { return text_; }

private:
    std::int32_t status_ = MCP_SUPERVISED_OK;
    std::string text_;
};

/** An outcome with a value, which is empty or 0 after a failure. */
template <class T>
class [[nodiscard]] result : public outcome {
public:
    result() = default;
    result(outcome why, T value) : outcome(std::move(why)), value_(std::move(value)) {}

    T &operator*() noexcept { return value_; }
    const T &operator*() const noexcept { return value_; }
    T *operator->() noexcept { return &value_; }
    const T *operator->() const noexcept { return &value_; }

private:
    T value_{};
};

/** The id of a request or a stream. */
using request_id = mcp_supervised_request_id;

namespace detail {

/* (NULL, 0) is the empty text of the C interface. A view of nothing may be just that, and a length never is the mark of a NUL-
   terminated text. */
inline std::string_view view(const char *at, std::size_t length) noexcept {
    return at == nullptr ? std::string_view() : std::string_view(at, length);
}

/* What the library said of the call that has just failed. Four statuses leave the text of an earlier failure in place. */
inline outcome judge(mcp_supervised *raw, std::int32_t status) {
    if (status >= 0) {
        return outcome(status, std::string());
    }
    const char *text = nullptr;
    std::size_t length = 0;
    switch (status) {
        case MCP_SUPERVISED_E_BUSY: return outcome(status, "another thread is inside the handle");
        case MCP_SUPERVISED_E_FORKED: return outcome(status, "the handle belongs to the parent of this process");
        case MCP_SUPERVISED_E_BAD_HANDLE: return outcome(status, "this is no handle");
        case MCP_SUPERVISED_E_PANIC: return outcome(status, "a bug inside the library was caught");
        default: break;
    }
    if (raw == nullptr || mcp_supervised_last_error(raw, &text, &length) < 0) {
        return outcome(status, mcp_supervised_status_name(status));
    }
    return outcome(status, std::string(view(text, length)));
}

/* Milliseconds of the C interface. A time below 0 is a mistake that must not become a very long one. */
inline bool unsigned_ms(milliseconds time, std::uint64_t &ms) noexcept {
    if (time == never) {
        ms = MCP_SUPERVISED_NO_TIMEOUT;
        return true;
    }
    if (time.count() < 0) {
        return false;
    }
    ms = static_cast<std::uint64_t>(time.count());
    return true;
}

}  // namespace detail

/** Writes a JSON object, member after member: object().text("name", "echo").raw("arguments", "{}").str(). */
class object {
public:
    /** A member whose value is that text, quoted and escaped. UTF-8. */
    object &text(std::string_view name, std::string_view value) {
        key(name);
        quote(value);
        return *this;
    }

    /** A member whose value is JSON already: the text of exactly one value. */
    object &raw(std::string_view name, std::string_view json) {
        key(name);
        json_ += json;
        return *this;
    }

    object &number(std::string_view name, std::int64_t value) { return raw(name, std::to_string(value)); }

    object &boolean(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }

    /** The object so far. */
    std::string str() const { return json_ + (json_.empty() ? "{}" : "}"); }

    /** A text as a JSON string, with its quotes. */
    static std::string quoted(std::string_view value) {
        object writer;
        writer.quote(value);
        return std::move(writer.json_);
    }

private:
    void key(std::string_view name) {
        json_ += json_.empty() ? '{' : ',';
        quote(name);
        json_ += ':';
    }

    void quote(std::string_view value) {
        constexpr std::string_view hex = "0123456789abcdef";
        json_ += '"';
        for (const char c : value) {
            const auto byte = static_cast<unsigned char>(c);
            if (c == '"' || c == '\\') {
                json_ += '\\';
                json_ += c;
            } else if (byte < 0x20) {
                json_ += "\\u00";
                json_ += hex[byte >> 4];
                json_ += hex[byte & 15];
            } else {
                json_ += c;
            }
        }
        json_ += '"';
    }

    std::string json_;
};

/** One event, with its texts as views. They are valid until the next poll of the handle, and no longer than it. */
struct event : mcp_supervised_event {
    /** The whole line, or the text of the event. */
    std::string_view payload() const noexcept {
        return detail::view(mcp_supervised_event::payload, mcp_supervised_event::payload_len);
    }
    /** The method of a message, without quotes. */
    std::string_view method() const noexcept {
        return detail::view(mcp_supervised_event::method, mcp_supervised_event::method_len);
    }
    /** Raw JSON: the result, the params or the error object of a message. */
    std::string_view body() const noexcept {
        return detail::view(mcp_supervised_event::body, mcp_supervised_event::body_len);
    }
    /** Raw JSON: the id of a message. */
    std::string_view id() const noexcept {
        return detail::view(mcp_supervised_event::id, mcp_supervised_event::id_len);
    }

    /** Whether all of these MCP_SUPERVISED_FLAG_ bits are set. */
    bool has(std::uint32_t flag) const noexcept { return (flags & flag) == flag; }
    /** Whether this is the one event that ends that request or stream. Ids are of a peer: with several peers ask for `peer` too. */
    bool completes(request_id of) const noexcept {
        return of != 0 && request == of && has(MCP_SUPERVISED_FLAG_COMPLETE);
    }
    /** Whether the server asks something, and waits for `peer::respond`. */
    bool asks() const noexcept {
        return kind == MCP_SUPERVISED_EVENT_MESSAGE && message_kind == MCP_SUPERVISED_MESSAGE_REQUEST && request != 0;
    }
    /** Whether this is a result, as opposed to an error of the server or the lack of an answer. */
    bool is_result() const noexcept {
        return kind == MCP_SUPERVISED_EVENT_MESSAGE && message_kind == MCP_SUPERVISED_MESSAGE_RESULT;
    }
};
static_assert(sizeof(event) == sizeof(mcp_supervised_event), "an array of events is an array of C events");

/** The events of one poll, for a range-based for. False if the poll failed. */
class [[nodiscard]] event_range : public outcome {
public:
    event_range(outcome why, const event *first, std::size_t size)
        : outcome(std::move(why)), first_(first), size_(size) {}

    const event *begin() const noexcept { return first_; }
    const event *end() const noexcept { return first_ + size_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }

private:
    const event *first_;
    std::size_t size_;
};

/** What the connections of a peer are made from. Setters can be chained; the first one that fails is told by handle::add. */
class spec {
public:
    explicit spec(std::string_view program) {
        note(mcp_supervised_spec_new(program.data(), program.size(), &raw_), "the program cannot be used");
    }
    spec(spec &&other) noexcept
        : raw_(std::exchange(other.raw_, nullptr)), status_(other.status_), what_(other.what_) {}
    spec &operator=(spec &&other) noexcept {
        std::swap(raw_, other.raw_);
        std::swap(status_, other.status_);
        std::swap(what_, other.what_);
        return *this;
    }
    spec(const spec &) = delete;
    spec &operator=(const spec &) = delete;
    ~spec() { mcp_supervised_spec_free(raw_); }

    spec &arg(std::string_view text) {
        return note(mcp_supervised_spec_arg(raw_, text.data(), text.size()), "an argument cannot be used");
    }
    spec &args(std::initializer_list<std::string_view> texts) {
        for (const auto text : texts) {
            arg(text);
        }
        return *this;
    }
    spec &cwd(std::string_view dir) {
        return note(mcp_supervised_spec_cwd(raw_, dir.data(), dir.size()), "the working directory cannot be used");
    }
    spec &env_mode(mcp_supervised_env_mode mode) {
        return note(mcp_supervised_spec_env_mode(raw_, static_cast<std::uint32_t>(mode)), "env_mode");
    }
    spec &env(std::string_view name, std::string_view value) {
        return note(mcp_supervised_spec_env(raw_, name.data(), name.size(), value.data(), value.size()),
                    "a variable of the environment cannot be used");
    }
    spec &mode(mcp_supervised_mode mode) {
        return note(mcp_supervised_spec_mode(raw_, static_cast<std::uint32_t>(mode)), "mode");
    }
    spec &restart(std::uint32_t max_restarts, milliseconds delay, milliseconds window) {
        std::uint64_t delay_ms = 0, window_ms = 0;
        if (!detail::unsigned_ms(delay, delay_ms) || !detail::unsigned_ms(window, window_ms)) {
            return note(MCP_SUPERVISED_E_INVALID, "restart: a time below 0");
        }
        return note(mcp_supervised_spec_restart(raw_, max_restarts, delay_ms, window_ms), "restart");
    }
    spec &stop_grace(milliseconds close_grace, milliseconds kill_grace) {
        std::uint64_t close_ms = 0, kill_ms = 0;
        if (!detail::unsigned_ms(close_grace, close_ms) || !detail::unsigned_ms(kill_grace, kill_ms)) {
            return note(MCP_SUPERVISED_E_INVALID, "stop_grace: a time below 0");
        }
        return note(mcp_supervised_spec_stop_grace(raw_, close_ms, kill_ms), "stop_grace");
    }
    spec &request_timeouts(milliseconds idle, milliseconds in_all) {
        std::uint64_t idle_ms = 0, all_ms = 0;
        if (!detail::unsigned_ms(idle, idle_ms) || !detail::unsigned_ms(in_all, all_ms)) {
            return note(MCP_SUPERVISED_E_INVALID, "request_timeouts: a time below 0");
        }
        return note(mcp_supervised_spec_request_timeouts(raw_, idle_ms, all_ms), "request_timeouts");
    }
    spec &start_timeouts(milliseconds probe, milliseconds start) {
        std::uint64_t probe_ms = 0, start_ms = 0;
        if (!detail::unsigned_ms(probe, probe_ms) || !detail::unsigned_ms(start, start_ms)) {
            return note(MCP_SUPERVISED_E_INVALID, "start_timeouts: a time below 0");
        }
        return note(mcp_supervised_spec_start_timeouts(raw_, probe_ms, start_ms), "start_timeouts");
    }
    spec &limit(mcp_supervised_limit kind, std::uint64_t value) {
        return note(mcp_supervised_spec_limit(raw_, static_cast<std::uint32_t>(kind), value), "limit");
    }
    spec &stderr_mode(mcp_supervised_stderr_mode mode) {
        return note(mcp_supervised_spec_stderr(raw_, static_cast<std::uint32_t>(mode)), "stderr_mode");
    }
    spec &client_info(std::string_view name, std::string_view version) {
        return note(mcp_supervised_spec_client_info(raw_, name.data(), name.size(), version.data(), version.size()),
                    "name or version of the client cannot be used");
    }
    spec &client_capabilities(std::string_view json) {
        return note(mcp_supervised_spec_client_capabilities(raw_, json.data(), json.size()),
                    "the client's capabilities cannot be used");
    }
    spec &retry_lost_requests(bool on = true) {
        return note(mcp_supervised_spec_retry_lost_requests(raw_, on ? 1 : 0), "retry_lost_requests");
    }
    spec &rediscover(bool on = true) { return note(mcp_supervised_spec_rediscover(raw_, on ? 1 : 0), "rediscover"); }
    spec &server_log_level(std::string_view level) {
        return note(mcp_supervised_spec_server_log_level(raw_, level.data(), level.size()), "server_log_level");
    }
    spec &shed(bool on = true) { return note(mcp_supervised_spec_shed(raw_, on ? 1 : 0), "shed"); }

    /** Whether every setter so far was content. */
    outcome check() const { return outcome(status_, status_ < 0 ? std::string(what_) : std::string()); }

    /** The C object, for setters that are not here. It stays the spec's own. */
    mcp_supervised_spec *get() const noexcept { return raw_; }

private:
    spec &note(std::int32_t status, std::string_view what) noexcept {
        if (status < 0 && status_ >= 0) {
            status_ = status;
            what_ = what;
        }
        return *this;
    }
    mcp_supervised_spec *raw_ = nullptr;
    std::int32_t status_ = MCP_SUPERVISED_OK;
    std::string_view what_;
};

/** Options of one request. All have a default. */
struct request_options {
    /** Comes back with every event of the request. */
    std::uint64_t user_data = 0;
    /** Without a sign of the request; 0 is the peer's. */
    milliseconds timeout{0};
    /** In all; 0 is the peer's. */
    milliseconds max_timeout{0};
    /** Ask the server to tell of progress. */
    bool progress = false;
    /** `_meta` is the host's own. */
    bool meta_verbatim = false;
    /** Of the typed calls: the JSON object that becomes `params._meta`. */
    std::string_view meta{};
    /** Of call_tool, get_prompt and read_resource, after a result with MCP_SUPERVISED_FLAG_INPUT_REQUIRED: the JSON object of the
        answers, and the JSON string of the state as it came. */
    std::string_view input_responses{};
    std::string_view request_state{};
};

/** What a stream is to tell of. */
struct filter {
    bool tools = false;
    bool prompts = false;
    bool resources = false;
    /** Changes of these resources. */
    std::vector<std::string_view> uris{};

    /** The JSON object of it. */
    std::string str() const {
        object json;
        if (tools) {
            json.boolean("toolsListChanged", true);
        }
        if (prompts) {
            json.boolean("promptsListChanged", true);
        }
        if (resources) {
            json.boolean("resourcesListChanged", true);
        }
        if (!uris.empty()) {
            std::string list;
            for (const auto uri : uris) {
                list += (list.empty() ? '[' : ',');
                list += object::quoted(uri);
            }
            json.raw("resourceSubscriptions", list + ']');
        }
        return json.str();
    }
};

/** A JSON text that the handle lends until the next call on it. `stale`: a restart came after the server said it. */
struct told {
    std::string_view json{};
    bool stale = false;
};

/** One supervised server: a name for it, valid as long as its handle. */
class peer {
public:
    peer() = default;
    peer(mcp_supervised *raw, mcp_supervised_peer number) noexcept : raw_(raw), number_(number) {}

    /** The number that events have as `peer`; 0 is none. */
    mcp_supervised_peer number() const noexcept { return number_; }
    bool operator==(const peer &other) const noexcept { return raw_ == other.raw_ && number_ == other.number_; }
    bool operator!=(const peer &other) const noexcept { return !(*this == other); }

    outcome start() const { return judge(mcp_supervised_start(raw_, number_)); }
    outcome close() const { return judge(mcp_supervised_close(raw_, number_)); }
    outcome remove() const { return judge(mcp_supervised_remove(raw_, number_)); }

    result<mcp_supervised_peer_state> state() const {
        const std::int32_t status = mcp_supervised_state(raw_, number_);
        return {judge(status), static_cast<mcp_supervised_peer_state>(status < 0 ? 0 : status)};
    }
    /** The process id, 0 while there is no process. */
    result<std::int32_t> pid() const {
        const std::int32_t status = mcp_supervised_pid(raw_, number_);
        return {judge(status), status < 0 ? 0 : status};
    }
    result<told> server_info() const { return ask(mcp_supervised_server_info); }
    result<told> server_capabilities() const { return ask(mcp_supervised_server_capabilities); }

    /** A request of any method. `params` is the text of a JSON object. */
    result<request_id> request(std::string_view method, std::string_view params = "{}",
                               const request_options &options = {}) const {
        mcp_supervised_request_options raw = {};
        raw.size = sizeof raw;
        raw.user_data = options.user_data;
        if (!detail::unsigned_ms(options.timeout, raw.timeout_ms) ||
            !detail::unsigned_ms(options.max_timeout, raw.max_timeout_ms)) {
            return {outcome(MCP_SUPERVISED_E_INVALID, "a timeout below 0"), 0};
        }
        raw.flags = (options.progress ? MCP_SUPERVISED_REQUEST_PROGRESS : 0u) |
                    (options.meta_verbatim ? MCP_SUPERVISED_REQUEST_META_VERBATIM : 0u);
        request_id id = 0;
        auto why = judge(mcp_supervised_request(raw_, number_, method.data(), method.size(), params.data(), params.size(),
                                                &raw, &id));
        return {std::move(why), id};
    }
    outcome notify(std::string_view method, std::string_view params = "{}") const {
        return judge(mcp_supervised_notify(raw_, number_, method.data(), method.size(), params.data(), params.size()));
    }
    outcome cancel(request_id id, std::string_view reason = {}) const {
        return judge(mcp_supervised_cancel(raw_, number_, id, reason.data(), reason.size()));
    }
    /** Answers a request of the server: an event of which asks() is true. `result_json` is a JSON object. */
    outcome respond(const event &to, std::string_view result_json = "{}") const { return respond(to.request, result_json); }
    /** The same by the token, which is the event's `request`, for an answer that takes longer than the event lives. */
    outcome respond(std::uint64_t token, std::string_view result_json = "{}") const {
        return judge(mcp_supervised_respond(raw_, number_, token, result_json.data(), result_json.size()));
    }
    outcome respond_error(std::uint64_t token, std::int64_t code, std::string_view message,
                          std::string_view data_json = {}) const {
        return judge(mcp_supervised_respond_error(raw_, number_, token, code, message.data(), message.size(),
                                                  data_json.data(), data_json.size()));
    }
    /** A line as it is; its number. */
    result<std::uint64_t> send(std::string_view line) const {
        std::uint64_t number = 0;
        auto why = judge(mcp_supervised_send(raw_, number_, line.data(), line.size(), &number));
        return {std::move(why), number};
    }

    // Typed calls. Each gives the id of its request; the answer is the event that completes it, with the raw JSON of the result
    // as its body. A cursor comes from a result's `nextCursor`; an empty one is a cursor, too.

    result<request_id> discover(const request_options &options = {}) const {
        return typed(MCP_SUPERVISED_METHOD_DISCOVER, object(), options);
    }
    result<request_id> list_tools(std::optional<std::string_view> cursor = {}, const request_options &options = {}) const {
        return list(MCP_SUPERVISED_METHOD_TOOLS_LIST, cursor, options);
    }
    result<request_id> list_resources(std::optional<std::string_view> cursor = {},
                                      const request_options &options = {}) const {
        return list(MCP_SUPERVISED_METHOD_RESOURCES_LIST, cursor, options);
    }
    result<request_id> list_resource_templates(std::optional<std::string_view> cursor = {},
                                               const request_options &options = {}) const {
        return list(MCP_SUPERVISED_METHOD_RESOURCES_TEMPLATES_LIST, cursor, options);
    }
    result<request_id> list_prompts(std::optional<std::string_view> cursor = {}, const request_options &options = {}) const {
        return list(MCP_SUPERVISED_METHOD_PROMPTS_LIST, cursor, options);
    }
    /** `arguments` is the text of one JSON object. */
    result<request_id> call_tool(std::string_view name, std::string_view arguments = "{}",
                                 const request_options &options = {}) const {
        return typed(MCP_SUPERVISED_METHOD_TOOLS_CALL, object().text("name", name).raw("arguments", arguments), options);
    }
    result<request_id> read_resource(std::string_view uri, const request_options &options = {}) const {
        return typed(MCP_SUPERVISED_METHOD_RESOURCES_READ, object().text("uri", uri), options);
    }
    /** `arguments` is the text of one JSON object, whose values are strings. */
    result<request_id> get_prompt(std::string_view name, std::string_view arguments = "{}",
                                  const request_options &options = {}) const {
        return typed(MCP_SUPERVISED_METHOD_PROMPTS_GET, object().text("name", name).raw("arguments", arguments), options);
    }
    /** Proposals for an argument of a prompt. `known` is the JSON object of the arguments that are settled, or empty. */
    result<request_id> complete_prompt(std::string_view prompt, std::string_view argument, std::string_view begun,
                                       std::string_view known = {}, const request_options &options = {}) const {
        return complete(object().text("type", "ref/prompt").text("name", prompt), argument, begun, known, options);
    }
    /** Proposals for a variable of a resource template. */
    result<request_id> complete_resource(std::string_view uri_template, std::string_view argument, std::string_view begun,
                                         std::string_view known = {}, const request_options &options = {}) const {
        return complete(object().text("type", "ref/resource").text("uri", uri_template), argument, begun, known, options);
    }
    /** Opens a stream, which survives restarts; its id. It ends by `cancel`, among others. */
    result<request_id> listen(const filter &wanted, std::uint64_t user_data = 0) const {
        return listen(std::string_view(wanted.str()), user_data);
    }
    /** The same with the filter as a JSON object. */
    result<request_id> listen(std::string_view filter_json, std::uint64_t user_data = 0) const {
        request_id id = 0;
        auto why = judge(mcp_supervised_listen(raw_, number_, filter_json.data(), filter_json.size(), user_data, &id));
        return {std::move(why), id};
    }

private:
    outcome judge(std::int32_t status) const { return detail::judge(raw_, status); }

    result<told> ask(std::int32_t (*question)(mcp_supervised *, mcp_supervised_peer, const char **, std::size_t *)) const {
        const char *text = nullptr;
        std::size_t length = 0;
        const std::int32_t status = question(raw_, number_, &text, &length);
        return {judge(status), told{detail::view(text, length), status == MCP_SUPERVISED_STALE}};
    }
    result<request_id> typed(std::string_view method, object params, const request_options &options) const {
        if (!options.meta.empty()) {
            params.raw("_meta", options.meta);
        }
        if (!options.input_responses.empty()) {
            params.raw("inputResponses", options.input_responses);
        }
        if (!options.request_state.empty()) {
            params.raw("requestState", options.request_state);
        }
        return request(method, params.str(), options);
    }
    result<request_id> list(std::string_view method, std::optional<std::string_view> cursor,
                            const request_options &options) const {
        return typed(method, cursor ? object().text("cursor", *cursor) : object(), options);
    }
    result<request_id> complete(const object &reference, std::string_view argument, std::string_view begun,
                                std::string_view known, const request_options &options) const {
        object params;
        params.raw("ref", reference.str());
        params.raw("argument", object().text("name", argument).text("value", begun).str());
        if (!known.empty()) {
            params.raw("context", object().raw("arguments", known).str());
        }
        return typed(MCP_SUPERVISED_METHOD_COMPLETE, std::move(params), options);
    }

    mcp_supervised *raw_ = nullptr;
    mcp_supervised_peer number_ = 0;
};

/** Options of a handle. */
struct config {
    bool manual_clock = false;
    std::optional<mcp_supervised_log_level> log_level{};
    bool sigchld = false;
};

/**
 * The handle: any number of servers, and their events. Used by one thread at a time: hosts with several take a lock around each
 * call here and on a `peer`, and around poll for as long as its events are looked at. E_BUSY alone is not enough, since a call here
 * may be two of C (the call, and the text of its failure), and since the array of events belongs to the handle. Such hosts wait on
 * `fd` and poll with a timeout of 0, so that nobody waits for the lock for long. `wakeup` alone needs none.
 */
class handle {
public:
    /** An empty one, to be moved into. */
    handle() = default;

    static result<handle> create(const config &options = {}) {
        mcp_supervised_config *raw_config = nullptr;
        std::int32_t status = mcp_supervised_config_new(&raw_config);
        if (status < 0) {
            return {outcome(status, mcp_supervised_status_name(status)), handle()};
        }
        mcp_supervised_config_manual_clock(raw_config, options.manual_clock ? 1 : 0);
        mcp_supervised_config_sigchld(raw_config, options.sigchld ? 1 : 0);
        if (options.log_level) {
            mcp_supervised_config_log_level(raw_config, static_cast<std::uint32_t>(*options.log_level));
        }
        char why[256] = "";
        mcp_supervised *raw = nullptr;
        status = mcp_supervised_new(raw_config, &raw, why, sizeof why);
        mcp_supervised_config_free(raw_config);
        return {outcome(status, status < 0 ? why : ""), handle(raw)};
    }

    /** Takes over a handle of C. */
    explicit handle(mcp_supervised *raw) noexcept : raw_(raw) {}
    handle(handle &&other) noexcept
        : raw_(std::exchange(other.raw_, nullptr)),
          events_(std::move(other.events_)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    /** They change places: what this one had lives on in `other`, with its servers, until that one ends. */
    handle &operator=(handle &&other) noexcept {
        std::swap(raw_, other.raw_);
        std::swap(events_, other.events_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    /** Kills what still runs, within a second. While another thread is inside, nothing can be freed, and it is lost. */
    ~handle() { mcp_supervised_free(raw_); }

    /** The same as the destructor, with an answer. After E_BUSY it is still there. */
    outcome free() {
        const std::int32_t status = mcp_supervised_free(raw_);
        if (status >= 0) {
            raw_ = nullptr;
            return outcome();
        }
        return detail::judge(nullptr, status);
    }

    /** False for an empty one. */
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    /** The C handle, which stays this one's. */
    mcp_supervised *get() const noexcept { return raw_; }
    /** The C handle, which is the caller's now. */
    mcp_supervised *release() noexcept { return std::exchange(raw_, nullptr); }

    /** Adds a server. `user_data` comes back as `peer_data` of its events. */
    result<peer> add(const spec &from, std::uint64_t user_data = 0) {
        auto fine = from.check();
        if (!fine) {
            return {std::move(fine), peer()};
        }
        mcp_supervised_peer number = 0;
        auto why = judge(mcp_supervised_add(raw_, from.get(), user_data, &number));
        return {std::move(why), peer(raw_, number)};
    }
    /** The peer an event is about. */
    peer peer_of(const event &of) const noexcept { return peer(raw_, of.peer); }

    /** Drives everything, and gives up to `max_events` events. Their texts live until the next poll. */
    event_range poll(milliseconds timeout, std::size_t max_events = 64) {
        if (max_events > capacity_) {
            events_ = std::make_unique<event[]>(max_events);
            capacity_ = max_events;
        }
        const auto longest = milliseconds(INT32_MAX);
        const std::int32_t ms = timeout == never ? -1
                                : timeout < milliseconds(0)
                                    ? -2 /* which poll refuses */
                                    : static_cast<std::int32_t>((timeout < longest ? timeout : longest).count());
        const std::int32_t count = mcp_supervised_poll(raw_, events_.get(), sizeof(event), max_events, ms);
        return event_range(judge(count), events_.get(), count < 0 ? 0 : static_cast<std::size_t>(count));
    }
    /** The descriptor to watch for input in a loop of the host's own; poll with a timeout of 0 when it is readable. */
    result<int> fd() const {
        const std::int32_t status = mcp_supervised_fd(raw_);
        return {judge(status), status < 0 ? -1 : status};
    }
    /** From any thread. (From a signal handler call mcp_supervised_wakeup itself: this one makes an outcome.) */
    outcome wakeup() const {
        const std::int32_t status = mcp_supervised_wakeup(raw_);
        return outcome(status, status < 0 ? mcp_supervised_status_name(status) : "");
    }
    /** Moves a manual clock. */
    outcome advance(std::chrono::nanoseconds by) {
        if (by.count() < 0) {
            return outcome(MCP_SUPERVISED_E_INVALID, "a clock does not go back");
        }
        return judge(mcp_supervised_advance(raw_, static_cast<std::uint64_t>(by.count())));
    }
    outcome shutdown(milliseconds grace) {
        std::uint64_t grace_ms = 0;
        if (!detail::unsigned_ms(grace, grace_ms)) {
            return outcome(MCP_SUPERVISED_E_INVALID, "a grace below 0");
        }
        return judge(mcp_supervised_shutdown(raw_, grace_ms));
    }

private:
    outcome judge(std::int32_t status) const { return detail::judge(raw_, status); }

    mcp_supervised *raw_ = nullptr;
    std::unique_ptr<event[]> events_;
    std::size_t capacity_ = 0;
};

}  // namespace supervised

#endif
