#define _POSIX_C_SOURCE 200809L

#include "client.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

/* Arguments of a tool that the listing shows. */
#define SHOWN_ARGUMENTS 20

static bool slice_is(const char *text, size_t len, const char *string) {
    return len == strlen(string) && memcmp(text, string, len) == 0;
}

/* A string that is expected; anything else is passed over. */
static void take_string(struct json *json, struct text *out) {
    if (!json_string(json, out)) {
        json_skip(json);
    }
}

static struct json body_of(const mcp_supervised_event *e) {
    return json_of(e->body, e->body_len);
}

static void put_visible(struct text *words, const struct text *text) {
    text_visible(words, text_begin(text), text_len(text), "");
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

static void finish(struct client *c, int status) {
    report_progress_end(c->report);
    c->done = true;
    c->status = status;
}

static void finish_saying(struct client *c, int status, struct text *words) {
    finish(c, status);
    report_words(c->report, BAD, words);
}

static void finish_with(struct client *c, int status, const char *what) {
    struct text words = {0};
    text_put(&words, what);
    finish_saying(c, status, &words);
}

/* "tools/call of `echo`", or the method alone. */
static void put_what(const struct client *c, struct text *words) {
    text_put(words, c->method);
    if (c->options->mode == CALL) {
        text_put(words, " of `");
        text_visible(words, c->options->tool, strlen(c->options->tool), "");
        text_put(words, "`");
    }
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static void send_request(struct client *c) {
    const struct options *o = c->options;
    uint64_t never = MCP_SUPERVISED_NO_TIMEOUT;
    mcp_supervised_request_options options = {
        .size = sizeof options,
        .timeout_ms = o->timeout_ms,
        .max_timeout_ms = o->timeout_ms == never ? never : 0,
        .flags = o->mode == CALL ? MCP_SUPERVISED_REQUEST_PROGRESS : 0,
    };
    int32_t status = mcp_supervised_request(c->handle, c->peer, c->method, MCP_SUPERVISED_CSTR, text_begin(&c->params),
                                            text_len(&c->params), &options, &c->request);
    c->waits = status == MCP_SUPERVISED_E_CLOSED && o->retry;
    if (c->waits) {
        return; /* the server died behind its last answer: the replacement is asked */
    }
    if (status < 0) {
        const char *why = "";
        mcp_supervised_last_error(c->handle, &why, NULL);
        struct text words = {0};
        put_what(c, &words);
        text_put(&words, " cannot be sent: ");
        text_put(&words, why);
        finish_saying(c, status == MCP_SUPERVISED_E_INVALID ? USAGE_ERROR : NO_ANSWER, &words);
        return;
    }
    report_request(c->report, c->request, c->method);
}

static void call_tool(struct client *c) {
    const struct options *o = c->options;
    c->method = MCP_SUPERVISED_METHOD_TOOLS_CALL;
    text_put(&c->params, "{\"name\":");
    text_json(&c->params, o->tool, strlen(o->tool));
    text_put(&c->params, ",\"arguments\":");
    text_put(&c->params, o->arguments != NULL ? o->arguments : "{}");
    text_put(&c->params, "}");
    send_request(c);
}

static void begin_listening(struct client *c) {
    const struct text *filter = &c->options->filter;
    c->method = "subscriptions/listen";
    int32_t status = mcp_supervised_listen(c->handle, c->peer, text_begin(filter), text_len(filter), 0, &c->request);
    if (status < 0) {
        const char *why = "";
        mcp_supervised_last_error(c->handle, &why, NULL);
        struct text words = {0};
        text_put(&words, why);
        finish_saying(c, USAGE_ERROR, &words);
        return;
    }
    report_request(c->report, c->request, c->method);
}

void client_init(struct client *c, const struct options *options, struct reporter *report, struct text *out,
                 mcp_supervised *handle) {
    *c = (struct client){
        .options = options,
        .report = report,
        .out = options->json ? &c->nowhere : out,
        .handle = handle,
        .is_terminal = isatty(STDOUT_FILENO) == 1,
        .status = ENDED_WELL,
    };
}

void client_begin(struct client *c, mcp_supervised_peer peer) {
    c->peer = peer;
    switch (c->options->mode) {
    case LIST:
        c->method = MCP_SUPERVISED_METHOD_DISCOVER;
        text_put(&c->params, "{}");
        send_request(c);
        break;
    case CALL: call_tool(c); break;
    case LISTEN: begin_listening(c); break;
    case PASS_LINES: break;
    }
}

void client_interrupt(struct client *c) {
    if (c->done || c->options->mode == LISTEN) {
        return; /* a stream is told by the library when the server is closed */
    }
    finish(c, NO_ANSWER);
    /* It may have been answered a moment ago. */
    mcp_supervised_cancel(c->handle, c->peer, c->request, "interrupted by the user", MCP_SUPERVISED_CSTR);
}

void client_free(struct client *c) {
    text_free(&c->params);
    text_free(&c->cursor);
    text_free(&c->nowhere);
}

/* ---- --list ------------------------------------------------------------------------------------------------------ */

/* What a listing has: the capability, what asks for it, the member of the answer it is in. */
static const struct section {
    const char *capability;
    const char *method;
    const char *heading;
} SECTIONS[] = {
    {"tools", MCP_SUPERVISED_METHOD_TOOLS_LIST, "tools"},
    {"resources", MCP_SUPERVISED_METHOD_RESOURCES_LIST, "resources"},
    {"prompts", MCP_SUPERVISED_METHOD_PROMPTS_LIST, "prompts"},
};
#define SECTION_COUNT (sizeof SECTIONS / sizeof SECTIONS[0])

/* What is told of a tool, a resource or a prompt. */
struct item {
    struct text name;
    struct text title;
    struct text uri;
    struct text type;
    struct text description;
    const char *arguments; /* of a prompt: an array */
    size_t arguments_len;
    const char *schema; /* of a tool */
    size_t schema_len;
};

static void free_item(struct item *item) {
    text_free(&item->name);
    text_free(&item->title);
    text_free(&item->uri);
    text_free(&item->type);
    text_free(&item->description);
}

static void take_item(struct json *json, struct item *item) {
    struct text name = {0};
    if (!json_object(json)) {
        json_skip(json);
        return;
    }
    while (json_member(json, &name)) {
        if (text_is(&name, "name")) {
            take_string(json, &item->name);
        } else if (text_is(&name, "title")) {
            take_string(json, &item->title);
        } else if (text_is(&name, "uri")) {
            take_string(json, &item->uri);
        } else if (text_is(&name, "mimeType")) {
            take_string(json, &item->type);
        } else if (text_is(&name, "description")) {
            take_string(json, &item->description);
        } else if (text_is(&name, "arguments")) {
            json_raw(json, &item->arguments, &item->arguments_len);
        } else if (text_is(&name, "inputSchema")) {
            json_raw(json, &item->schema, &item->schema_len);
        } else {
            json_skip(json);
        }
    }
    text_free(&name);
}

/* Whether an array of strings has one. */
static bool has_string(struct json array, const struct text *wanted) {
    struct text text = {0};
    bool found = false;
    if (json_array(&array)) {
        while (!found && json_element(&array)) {
            take_string(&array, &text);
            found = text_len(&text) == text_len(wanted) && memcmp(text_begin(&text), text_begin(wanted), text_len(&text)) == 0;
        }
    }
    text_free(&text);
    return found;
}

static void put_argument(struct text *out, size_t number, const struct text *name, bool is_needed) {
    if (number <= SHOWN_ARGUMENTS) {
        text_put(out, number > 1 ? ", " : "");
        put_visible(out, name);
        text_put(out, is_needed ? "" : "?");
    } else if (number == SHOWN_ARGUMENTS + 1) {
        text_put(out, ", ...");
    }
}

/* "(message, count?)" from a JSON schema. */
static void put_schema(struct text *out, const struct item *item) {
    struct json json = json_of(item->schema, item->schema_len);
    struct json properties = json_of("", 0);
    struct json required = json_of("", 0);
    struct text name = {0};
    const char *raw;
    size_t len;
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            bool is_properties = text_is(&name, "properties");
            bool is_required = text_is(&name, "required");
            if (json_raw(&json, &raw, &len)) {
                properties = is_properties ? json_of(raw, len) : properties;
                required = is_required ? json_of(raw, len) : required;
            }
        }
    }
    text_put(out, "(");
    size_t number = 0;
    if (json_object(&properties)) {
        while (number <= SHOWN_ARGUMENTS && json_member(&properties, &name)) {
            put_argument(out, ++number, &name, has_string(required, &name));
            json_skip(&properties);
        }
    }
    text_put(out, ")");
    text_free(&name);
}

/* The same from the arguments of a prompt. */
static void put_arguments(struct text *out, const struct item *item) {
    struct json json = json_of(item->arguments, item->arguments_len);
    struct text member = {0};
    struct text name = {0};
    size_t number = 0;
    text_put(out, "(");
    if (json_array(&json)) {
        while (number <= SHOWN_ARGUMENTS && json_element(&json)) {
            bool is_needed = false;
            text_take(&name, text_len(&name));
            if (!json_object(&json)) {
                json_skip(&json);
                continue;
            }
            while (json_member(&json, &member)) {
                if (text_is(&member, "name")) {
                    take_string(&json, &name);
                } else {
                    is_needed |= text_is(&member, "required") && json_kind(&json) == JSON_TRUE;
                    json_skip(&json);
                }
            }
            put_argument(out, ++number, &name, is_needed);
        }
    }
    text_put(out, ")");
    text_free(&member);
    text_free(&name);
}

/* A text of some lines, each with white space before it. */
static void put_indented(struct text *out, const char *before, const struct text *text) {
    const char *at = text_begin(text);
    size_t left = text_len(text);
    while (left > 0) {
        const char *feed = memchr(at, '\n', left);
        size_t len = feed != NULL ? (size_t)(feed - at) : left;
        if (len > 0) {
            text_put(out, before);
            text_visible(out, at, len, "\t");
        }
        text_put(out, "\n");
        len += feed != NULL;
        at += len;
        left -= len;
    }
}

static void put_item(struct client *c, const struct item *item) {
    struct text *out = c->out;
    text_put(out, "  ");
    if (text_len(&item->uri) > 0) {
        put_visible(out, &item->uri);
        text_put(out, "  ");
    }
    put_visible(out, &item->name);
    if (item->schema != NULL) {
        put_schema(out, item);
    } else if (item->arguments != NULL) {
        put_arguments(out, item);
    }
    const struct text *more[] = {&item->title, &item->type};
    for (size_t i = 0; i < 2; i++) {
        if (text_len(more[i]) > 0) {
            text_put(out, ", ");
            put_visible(out, more[i]);
        }
    }
    text_put(out, "\n");
    put_indented(out, "      ", &item->description);
}

/* Prints the items of a page. */
static void put_items(struct client *c, struct json *json) {
    if (!json_array(json)) {
        json_skip(json);
        return;
    }
    while (json_element(json)) {
        struct item item = {0};
        take_item(json, &item);
        put_item(c, &item);
        free_item(&item);
        c->is_first_page = false;
    }
}

static void next_section(struct client *c) {
    do {
        c->section++;
    } while (c->section <= SECTION_COUNT && !(c->has >> (c->section - 1) & 1));
    if (c->section > SECTION_COUNT) {
        finish(c, ENDED_WELL);
        return;
    }
    const struct section *section = &SECTIONS[c->section - 1];
    c->method = section->method;
    c->is_first_page = true;
    text_take(&c->params, text_len(&c->params));
    text_take(&c->cursor, text_len(&c->cursor));
    text_put(&c->params, "{}");
    text_put(c->out, "\n");
    text_put(c->out, section->heading);
    text_put(c->out, "\n");
    send_request(c);
}

/* One page of a list. */
static void on_page(struct client *c, const mcp_supervised_event *e) {
    struct json json = body_of(e);
    struct text name = {0};
    const char *cursor = NULL;
    size_t cursor_len = 0;
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            if (text_is(&name, SECTIONS[c->section - 1].heading)) {
                put_items(c, &json);
            } else if (text_is(&name, "nextCursor") && json_kind(&json) == JSON_STRING) {
                json_raw(&json, &cursor, &cursor_len);
            } else {
                json_skip(&json);
            }
        }
    } else {
        json_skip(&json);
    }
    text_free(&name);
    if (!json_done(&json)) {
        finish_with(c, REFUSED, "the answer is nested too deeply to be shown");
    } else if (cursor == NULL) {
        text_put(c->out, c->is_first_page ? "  none\n" : "");
        next_section(c);
    } else if (text_len(&c->cursor) == cursor_len && memcmp(text_begin(&c->cursor), cursor, cursor_len) == 0) {
        finish_with(c, REFUSED, "the list has no end: the server names the same next page again");
    } else {
        text_take(&c->cursor, text_len(&c->cursor));
        text_add(&c->cursor, cursor, cursor_len);
        text_take(&c->params, text_len(&c->params));
        text_put(&c->params, "{\"cursor\":");
        text_add(&c->params, cursor, cursor_len);
        text_put(&c->params, "}");
        send_request(c);
    }
}

/* The names of an object's members, or the strings of an array, with commas. */
static void put_names(struct client *c, struct json *json, bool are_capabilities) {
    struct text name = {0};
    bool is_first = true;
    bool is_object = json_object(json);
    if (!is_object && !json_array(json)) {
        json_skip(json);
        return;
    }
    while (is_object ? json_member(json, &name) : json_element(json)) {
        bool is_there = true;
        if (is_object) {
            is_there = json_kind(json) != JSON_NULL;
            json_skip(json);
        } else {
            take_string(json, &name);
        }
        for (size_t i = 0; are_capabilities && is_there && i < SECTION_COUNT; i++) {
            c->has |= (unsigned)text_is(&name, SECTIONS[i].capability) << i;
        }
        if (is_there) {
            text_put(c->out, is_first ? "" : ", ");
            put_visible(c->out, &name);
            is_first = false;
        }
    }
    text_put(c->out, is_first ? "none\n" : "\n");
    text_free(&name);
}

/* The name and the version of a server. */
static void put_server(struct client *c) {
    const char *info = NULL;
    size_t len = 0;
    struct text member = {0};
    struct text name = {0};
    struct text version = {0};
    if (mcp_supervised_server_info(c->handle, c->peer, &info, &len) >= 0) {
        struct json json = json_of(info, len);
        if (json_object(&json)) {
            while (json_member(&json, &member)) {
                if (text_is(&member, "name")) {
                    take_string(&json, &name);
                } else if (text_is(&member, "version")) {
                    take_string(&json, &version);
                } else {
                    json_skip(&json);
                }
            }
        }
    }
    if (text_len(&name) == 0) {
        text_put(&name, "a server without a name");
    }
    put_visible(c->out, &name);
    if (text_len(&version) > 0) {
        text_put(c->out, " ");
        put_visible(c->out, &version);
    }
    text_put(c->out, "\n");
    text_free(&member);
    text_free(&name);
    text_free(&version);
}

static void on_discovered(struct client *c, const mcp_supervised_event *e) {
    struct json json = body_of(e);
    struct json versions = json_of("", 0);
    struct json capabilities = json_of("", 0);
    struct text name = {0};
    struct text instructions = {0};
    const char *raw;
    size_t len;
    put_server(c);
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            if (text_is(&name, "instructions")) {
                take_string(&json, &instructions);
            } else {
                bool is_versions = text_is(&name, "supportedVersions");
                bool is_capabilities = text_is(&name, "capabilities");
                if (json_raw(&json, &raw, &len)) {
                    versions = is_versions ? json_of(raw, len) : versions;
                    capabilities = is_capabilities ? json_of(raw, len) : capabilities;
                }
            }
        }
    }
    text_put(c->out, "  versions      ");
    put_names(c, &versions, false);
    text_put(c->out, "  capabilities  ");
    put_names(c, &capabilities, true);
    if (text_len(&instructions) > 0) {
        text_put(c->out, "\ninstructions\n");
        put_indented(c->out, "  ", &instructions);
    }
    text_free(&name);
    text_free(&instructions);
    next_section(c);
}

/* ---- --call ------------------------------------------------------------------------------------------------------ */

/* One piece of a result. */
struct piece {
    struct text type;
    struct text text;
    struct text mime;
    struct text uri;
    struct text name;
    uint64_t bytes; /* of what is there in base64 */
    bool has_text;
};

/* How many bytes a base64 string stands for. */
static uint64_t base64_bytes(const struct text *text) {
    size_t len = text_len(text);
    const char *at = text_begin(text);
    while (len > 0 && at[len - 1] == '=') {
        len--;
    }
    return (uint64_t)len * 3 / 4;
}

static void take_piece(struct json *json, struct piece *piece, bool is_inner) {
    struct text name = {0};
    struct text data = {0};
    if (!json_object(json)) {
        json_skip(json);
        return;
    }
    while (json_member(json, &name)) {
        if (text_is(&name, "type")) {
            take_string(json, &piece->type);
        } else if (text_is(&name, "text")) {
            piece->has_text = json_kind(json) == JSON_STRING;
            take_string(json, &piece->text);
        } else if (text_is(&name, "mimeType")) {
            take_string(json, &piece->mime);
        } else if (text_is(&name, "uri")) {
            take_string(json, &piece->uri);
        } else if (text_is(&name, "name")) {
            take_string(json, &piece->name);
        } else if (text_is(&name, "data") || text_is(&name, "blob")) {
            take_string(json, &data);
            piece->bytes = base64_bytes(&data);
        } else if (!is_inner && text_is(&name, "resource")) {
            take_piece(json, piece, true);
        } else {
            json_skip(json);
        }
    }
    text_free(&name);
    text_free(&data);
}

static void put_lines(struct client *c, const char *at, size_t len) {
    /* A terminal would obey what a tool says; a file gets it as it is. */
    if (c->is_terminal) {
        text_visible(c->out, at, len, "\n\t");
    } else {
        text_add(c->out, at, len);
    }
    if (len == 0 || at[len - 1] != '\n') {
        text_put(c->out, "\n");
    }
}

static void put_piece(struct client *c, const struct piece *piece) {
    if (text_is(&piece->type, "text")) {
        put_lines(c, text_begin(&piece->text), text_len(&piece->text));
        return;
    }
    struct text *out = c->out;
    text_put(out, "[");
    if (text_len(&piece->type) > 0) {
        put_visible(out, &piece->type);
    } else {
        text_put(out, "content without a type");
    }
    const struct text *parts[] = {&piece->name, &piece->uri, &piece->mime};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (text_len(parts[i]) > 0) {
            text_put(out, ", ");
            put_visible(out, parts[i]);
        }
    }
    uint64_t bytes = piece->has_text ? text_len(&piece->text) : piece->bytes;
    if (bytes > 0) {
        text_printf(out, ", %" PRIu64 " bytes", bytes);
    }
    text_put(out, "]\n");
}

/* Prints an array of content; how many pieces it has. */
static size_t put_content(struct client *c, struct json *json) {
    size_t count = 0;
    if (!json_array(json)) {
        json_skip(json);
        return 0;
    }
    while (json_element(json)) {
        struct piece piece = {0};
        take_piece(json, &piece, false);
        put_piece(c, &piece);
        count++;
        text_free(&piece.type);
        text_free(&piece.text);
        text_free(&piece.mime);
        text_free(&piece.uri);
        text_free(&piece.name);
    }
    return count;
}

static void on_called(struct client *c, const mcp_supervised_event *e) {
    if (e->flags & MCP_SUPERVISED_FLAG_INPUT_REQUIRED) {
        finish_with(c, REFUSED, "the tool asks for more input, which supervise cannot give");
        return;
    }
    struct json json = body_of(e);
    struct text name = {0};
    const char *structured = NULL;
    size_t structured_len = 0;
    size_t pieces = 0;
    bool is_error = false;
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            if (text_is(&name, "content")) {
                pieces += put_content(c, &json);
            } else if (text_is(&name, "structuredContent")) {
                json_raw(&json, &structured, &structured_len);
            } else {
                is_error |= text_is(&name, "isError") && json_kind(&json) == JSON_TRUE;
                json_skip(&json);
            }
        }
    } else {
        json_skip(&json);
    }
    text_free(&name);
    if (!json_done(&json)) {
        finish_with(c, REFUSED, "the answer is nested too deeply to be shown");
        return;
    }
    if (pieces == 0 && structured != NULL) {
        put_lines(c, structured, structured_len);
    }
    if (is_error) {
        finish_with(c, REFUSED, "the tool says that it failed");
    } else {
        finish(c, ENDED_WELL);
    }
}

static void on_progress(struct client *c, const mcp_supervised_event *e) {
    struct json json = body_of(e);
    struct text name = {0};
    struct text message = {0};
    const char *done = NULL;
    const char *total = NULL;
    size_t done_len = 0;
    size_t total_len = 0;
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            if (text_is(&name, "message")) {
                take_string(&json, &message);
            } else if (text_is(&name, "progress") && json_kind(&json) == JSON_NUMBER) {
                json_raw(&json, &done, &done_len);
            } else if (text_is(&name, "total") && json_kind(&json) == JSON_NUMBER) {
                json_raw(&json, &total, &total_len);
            } else {
                json_skip(&json);
            }
        }
    }
    struct text words = {0};
    text_visible(&words, c->options->tool, strlen(c->options->tool), "");
    text_put(&words, ": ");
    text_add(&words, done, done_len);
    if (total_len > 0) {
        text_put(&words, " of ");
        text_add(&words, total, total_len);
    }
    if (text_len(&message) > 0) {
        text_put(&words, done_len > 0 ? ", " : "");
        put_visible(&words, &message);
    }
    report_progress(c->report, &words);
    text_free(&name);
    text_free(&message);
}

/* ---- --listen ---------------------------------------------------------------------------------------------------- */

static void put_time(struct text *out) {
    struct timespec now;
    struct tm parts;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) != NULL && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts) > 0) {
        text_put(out, text);
        text_printf(out, ".%03dZ ", (int)(now.tv_nsec / 1000000));
    }
}

/* What a server accepts of a filter, in words; how many things that is. */
static size_t put_accepted(struct text *words, struct json *json) {
    static const char *const FLAGS[][2] = {
        {"toolsListChanged", "tools"}, {"promptsListChanged", "prompts"}, {"resourcesListChanged", "resources"}};
    struct text name = {0};
    struct text uri = {0};
    size_t count = 0;
    if (!json_object(json)) {
        json_skip(json);
        return 0;
    }
    while (json_member(json, &name)) {
        if (text_is(&name, "resourceSubscriptions") && json_array(json)) {
            while (json_element(json)) {
                take_string(json, &uri);
                text_put(words, count++ > 0 ? ", " : "");
                put_visible(words, &uri);
            }
            continue;
        }
        for (size_t i = 0; i < sizeof FLAGS / sizeof FLAGS[0]; i++) {
            if (text_is(&name, FLAGS[i][0]) && json_kind(json) == JSON_TRUE) {
                text_put(words, count++ > 0 ? ", " : "");
                text_put(words, FLAGS[i][1]);
            }
        }
        json_skip(json);
    }
    text_free(&name);
    text_free(&uri);
    return count;
}

static void on_acknowledged(struct client *c, const mcp_supervised_event *e) {
    struct json json = body_of(e);
    struct text name = {0};
    struct text words = {0};
    size_t count = 0;
    bool is_first = c->acknowledged++ == 0;
    text_put(&words, is_first ? "listening: " : "listening again, what happened in between is not known: ");
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            if (text_is(&name, "notifications")) {
                count = put_accepted(&words, &json);
            } else {
                json_skip(&json);
            }
        }
    }
    bool is_less = count < c->options->listen_count;
    if (is_less) {
        text_put(&words, count == 0 ? "to nothing, the server accepts none of it" : "; the server accepts no more");
    }
    report_words(c->report, is_less ? WARNING : GOOD, &words);
    text_free(&name);
}

/* The member `uri` of the params. */
static void put_uri(struct text *out, struct json json) {
    struct text name = {0};
    struct text uri = {0};
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            if (text_is(&name, "uri")) {
                take_string(&json, &uri);
            } else {
                json_skip(&json);
            }
        }
    }
    text_put(out, " ");
    put_visible(out, &uri);
    text_free(&name);
    text_free(&uri);
}

static void on_notification(struct client *c, const mcp_supervised_event *e) {
    static const char PREFIX[] = "notifications/";
    static const char *const PLAIN[] = {
        "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"};
    if (slice_is(e->method, e->method_len, "notifications/subscriptions/acknowledged")) {
        on_acknowledged(c, e);
        return;
    }
    if (c->options->timestamps) {
        put_time(c->out);
    }
    size_t skipped = sizeof PREFIX - 1;
    if (e->method_len <= skipped || memcmp(e->method, PREFIX, skipped) != 0) {
        skipped = 0;
    }
    text_visible(c->out, e->method + skipped, e->method_len - skipped, "");
    bool is_plain = false;
    for (size_t i = 0; i < sizeof PLAIN / sizeof PLAIN[0]; i++) {
        is_plain |= slice_is(e->method, e->method_len, PLAIN[i]);
    }
    if (slice_is(e->method, e->method_len, "notifications/resources/updated")) {
        put_uri(c->out, body_of(e));
    } else if (!is_plain && e->body_len > 0) {
        text_put(c->out, " ");
        text_visible(c->out, e->body, e->body_len, "");
    }
    text_put(c->out, "\n");
}

/* ---- Completions ------------------------------------------------------------------------------------------------- */

/* The server answered an error. */
static void on_remote_error(struct client *c, const mcp_supervised_event *e) {
    struct json json = body_of(e);
    struct text name = {0};
    struct text message = {0};
    struct text words = {0};
    if (json_object(&json)) {
        while (json_member(&json, &name)) {
            if (text_is(&name, "message")) {
                take_string(&json, &message);
            } else {
                json_skip(&json);
            }
        }
    }
    put_what(c, &words);
    text_printf(&words, " was answered with error %" PRId64, e->error_code);
    text_put(&words, text_len(&message) > 0 ? ": " : "");
    put_visible(&words, &message);
    if (e->error_code == -32601 && strcmp(c->method, MCP_SUPERVISED_METHOD_DISCOVER) == 0) {
        text_put(&words, " (is it a server of a revision before 2026-07-28? Try --speak auto)");
    }
    finish_saying(c, REFUSED, &words);
    text_free(&name);
    text_free(&message);
}

static void on_result(struct client *c, const mcp_supervised_event *e) {
    if ((e->flags & MCP_SUPERVISED_FLAG_RETRIED) && c->options->verbose) {
        struct text words = {0};
        put_what(c, &words);
        text_put(&words, " was sent again after a restart, and answered now");
        report_words(c->report, QUIET, &words);
    }
    switch (c->options->mode) {
    case CALL: on_called(c, e); break;
    case LISTEN: finish_with(c, REFUSED, "the server ended the stream"); break;
    case LIST:
        if (c->section == 0) {
            on_discovered(c, e);
        } else {
            on_page(c, e);
        }
        break;
    case PASS_LINES: break;
    }
}

/* There is no answer: what does that mean for the server's side? */
static void on_failed(struct client *c, const mcp_supervised_event *e) {
    struct text words = {0};
    bool is_call = c->options->mode == CALL;
    put_what(c, &words);
    switch (e->status) {
    case MCP_SUPERVISED_E_CLOSED:
        text_put(&words, " is lost: the server died before it answered. ");
        if (e->flags & MCP_SUPERVISED_FLAG_UNREAD) {
            text_put(&words, "It cannot have read a byte of it, so it is safe to repeat");
        } else if (is_call) {
            text_put(&words, "It may have read it and done the work, so it is not sent again");
        } else {
            text_put(&words, "With --retry it would be sent again to the replacement");
        }
        finish_saying(c, NO_ANSWER, &words);
        return;
    case MCP_SUPERVISED_E_TIMEOUT:
        text_put(&words, ": ");
        text_visible(&words, e->payload, e->payload_len, "");
        text_put(&words, is_call ? "; the tool may have done its work all the same" : "");
        finish_saying(c, NO_ANSWER, &words);
        return;
    case MCP_SUPERVISED_E_EXHAUSTED:
        /* That it is given up is told by the event behind this one. */
        finish(c, EXHAUSTED);
        break;
    default:
        text_put(&words, ": ");
        text_visible(&words, e->payload, e->payload_len, "");
        finish_saying(c, REFUSED, &words);
        return;
    }
    text_free(&words);
}

void client_event(struct client *c, const mcp_supervised_event *e) {
    text_take(&c->nowhere, text_len(&c->nowhere));
    if (e->kind == MCP_SUPERVISED_EVENT_RECONNECT && c->waits) {
        send_request(c);
        return;
    }
    if (e->request == 0 || c->done) {
        return;
    }
    bool is_message = e->kind == MCP_SUPERVISED_EVENT_MESSAGE;
    if (!(e->flags & MCP_SUPERVISED_FLAG_COMPLETE)) {
        if (is_message && c->options->mode == LISTEN) {
            on_notification(c, e);
        } else if (is_message) {
            on_progress(c, e);
        }
        return;
    }
    if (!is_message && e->status == MCP_SUPERVISED_E_CLOSED && c->options->mode == LISTEN) {
        finish(c, ENDED_WELL); /* a stream outlives its server, so this is the end that was asked for */
    } else if (!is_message) {
        on_failed(c, e);
    } else if (e->message_kind == MCP_SUPERVISED_MESSAGE_RESULT) {
        on_result(c, e);
    } else {
        on_remote_error(c, e);
    }
}
