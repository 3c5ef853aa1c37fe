/*
 * The floor of the work: what a client does for a call beside reading and writing, written by hand in plain C for this one
 * purpose, eight bytes at a time where that is simple. Each request gets an id, its params are looked through, the protocol's `_meta` is put in, and it is remembered with
 * its deadline; of each answer the envelope is found, the request it belongs to is looked up, and an event as large as the
 * library's is filled in. It has one server, no errors to tell, no restarts, no limits, no second kind of message.
 */
#include "floor_work.h"

#include <stdint.h>
#include <string.h>

enum { RING = 4096 };

/* What is remembered of a request under way. Deadlines are a list: all have the same timeout. */
struct under_way {
    uint64_t id, user_data, deadline;
    uint32_t before, behind;
};

static struct under_way ring[RING];
static uint32_t first, last;
static uint64_t next_id = 1;
static struct floor_event events[64];

#define EACH(byte) ((uint64_t)(byte) * 0x0101010101010101u)

/* A bit in each byte of `word` that is 0 (and maybe in bytes above such a one). */
static uint64_t zeros(uint64_t word) { return (word - EACH(1)) & ~word & EACH(0x80); }

/* The next quote, backslash or control character from `at` on, eight bytes at a time. */
static const char *string_stop(const char *at, const char *end) {
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t stops = zeros(word ^ EACH('"')) | zeros(word ^ EACH('\\')) | ((word - EACH(0x20)) & ~word & EACH(0x80));
        if (stops) return at + __builtin_ctzll(stops) / 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) at++;
    return at;
}

/* Behind the value at `at`; NULL if it does not end. Brackets, strings, escapes and control characters are looked at. */
static const char *skip_value(const char *at, const char *end) {
    long depth = 0;
    for (; at < end; at++) {
        switch (*at) {
        case '"':
            while ((at = string_stop(at + 1, end)) < end && *at == '\\') at++;
            if (at >= end || *at != '"') return NULL;
            break;
        case '{':
        case '[':
            depth++;
            continue;
        case '}':
        case ']':
            if (depth == 0) return at;
            depth--;
            break;
        case ',':
            if (depth == 0) return at;
            continue;
        default:
            continue;
        }
        if (depth == 0) return at + 1;
    }
    return depth == 0 ? at : NULL;
}

static size_t put_number(char *out, uint64_t number) {
    char digits[20];
    size_t len = 0;
    do digits[len++] = (char)('0' + number % 10);
    while (number /= 10);
    for (size_t i = 0; i < len; i++) out[i] = digits[len - 1 - i];
    return len;
}

size_t floor_request(char *out, const char *method, size_t method_len, const char *params, size_t params_len, uint64_t now) {
    static const char ID[] = "{\"jsonrpc\":\"2.0\",\"id\":", METHOD[] = ",\"method\":\"";
    static const char META[] = "\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                               "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1.0.0\"},"
                               "\"io.modelcontextprotocol/clientCapabilities\":{}},";
    if (params[0] != '{' || skip_value(params, params + params_len) != params + params_len) return 0;
    uint64_t id = next_id++;
    struct under_way *entry = &ring[id % RING];
    *entry = (struct under_way){.id = id, .user_data = id, .deadline = now + 60000000000, .before = last};
    ring[last].behind = (uint32_t)(id % RING);
    last = (uint32_t)(id % RING);
    char *at = out;
    memcpy(at, ID, sizeof ID - 1), at += sizeof ID - 1;
    at += put_number(at, id);
    memcpy(at, METHOD, sizeof METHOD - 1), at += sizeof METHOD - 1;
    memcpy(at, method, method_len), at += method_len;
    memcpy(at, META, sizeof META - 1), at += sizeof META - 1;
    memcpy(at, params + 1, params_len - 1), at += params_len - 1;
    memcpy(at, "}\n", 2), at += 2;
    return (size_t)(at - out);
}

static uint64_t number(const char *at, const char *end) {
    uint64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) value = value * 10 + (uint64_t)(*at - '0');
    return value;
}

/* One line; whether it is an answer to a request, or a notification. */
static int answer(const char *line, const char *end, struct floor_event *event) {
    const char *at = line + 1, *id = NULL, *method = NULL, *body = NULL, *body_end = NULL;
    uint64_t bits = 0, word = 0;
    for (const char *c = line; c < end; c += 8) memcpy(&word, c, end - c < 8 ? (size_t)(end - c) : 8), bits |= word; /* ASCII */
    if (line == end || *line != '{' || bits & EACH(0x80)) return 0;
    while (at < end && *at == '"') {
        const char *key = at + 1, *key_end = memchr(key, '"', (size_t)(end - key));
        if (!key_end || key_end[1] != ':') return 0;
        const char *value = key_end + 2, *value_end = skip_value(value, end);
        if (!value_end) return 0;
        if (key_end - key == 2 && !memcmp(key, "id", 2)) id = value;
        else if (key_end - key == 6 && !memcmp(key, "result", 6)) body = value, body_end = value_end;
        else if (key_end - key == 6 && !memcmp(key, "method", 6)) method = value;
        else if (key_end - key == 6 && !memcmp(key, "params", 6)) body = value, body_end = value_end;
        at = value_end + (*value_end == ',');
    }
    if (!body || *at != '}' || !id == !method) return 0;
    memset(event, 0, sizeof *event);
    event->kind = 1;
    if (id) {
        struct under_way *entry = &ring[number(id, end) % RING];
        if (entry->id != number(id, end)) return 0;
        ring[entry->before].behind = entry->behind;
        ring[entry->behind].before = entry->before;
        if (first == entry->id % RING) first = entry->behind;
        event->flags = 1;
        event->request = entry->id;
        event->user_data = entry->user_data;
        entry->id = 0;
    }
    event->method = method;
    event->payload = line;
    event->payload_len = (size_t)(end - line);
    event->body = body;
    event->body_len = (size_t)(body_end - body);
    return 1;
}

/* Lines of a buffer; how many answers and notifications there were. What is left over is moved to the front, `*len` is its length. */
long floor_answers(char *buffer, size_t *len) {
    char *line = buffer, *end = buffer + *len, *feed;
    long found = 0;
    while ((feed = memchr(line, '\n', (size_t)(end - line)))) {
        found += answer(line, feed, &events[found % 64]);
        line = feed + 1;
    }
    *len = (size_t)(end - line);
    memmove(buffer, line, *len);
    return found;
}
