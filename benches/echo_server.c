/*
 * The partner of every client in the benchmarks: an MCP server that answers as fast as it can. It takes all that one read
 * gives, answers each complete line in it, and writes the answers together. It is no JSON parser: it looks for "id": and
 * "method": as they stand, so they must not occur inside arguments.
 *
 *     echo-server [payload=N] [notify=K] [nsize=B] [crash=M] [dense] [sized]
 *
 * payload=N  bytes of text in the answer of each tools/call (default 32)
 * notify=K   a call of the tool "flood" is answered after K notifications
 * nsize=B    bytes of text in each of those (default 24)
 * crash=M    exits right after its M-th tools/call was answered
 * dense      the answer is no text but about N bytes of small objects; also if "dense" stands in the name of the program
 * sized      a call says by "bytes":N in its arguments how long the text of its answer is to be
 *
 * A call of the tool "die" is answered, and then the server is gone: by SIGKILL if the arguments say "kill", or else by exit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OUT_BYTES = 256 << 10, IN_BYTES = 256 << 10, LARGE = 32 << 10, MOST_SIZED = 16 << 20 };

static const char HEAD[] = "{\"jsonrpc\":\"2.0\",\"id\":";
static const char TEXT_BEGIN[] = ",\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"";
static const char TEXT_END[] = "\"}]}}\n";
static const char DENSE_BEGIN[] = ",\"result\":{\"resultType\":\"complete\",\"content\":[],\"structuredContent\":{\"rows\":[";
static const char DENSE_END[] = "]}}}\n";

static const struct { const char *method, *answer; } OTHERS[] = {
    {"server/discover", ",\"result\":{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{},"
                        "\"logging\":{}},\"ttlMs\":3600000,\"cacheScope\":\"private\",\"_meta\":{"
                        "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}}\n"},
    {"initialize", ",\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{},\"logging\":{}},"
                   "\"serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n"},
    {"tools/list", ",\"result\":{\"resultType\":\"complete\",\"tools\":[{\"name\":\"echo\",\"inputSchema\":{\"type\":\"object\"}},"
                   "{\"name\":\"flood\",\"inputSchema\":{\"type\":\"object\"}}],\"ttlMs\":3600000,\"cacheScope\":\"private\"}}\n"},
    {"ping", ",\"result\":{\"resultType\":\"complete\"}}\n"},
    {"logging/setLevel", ",\"result\":{\"resultType\":\"complete\"}}\n"},
};

static size_t payload = 32, notification_bytes = 24;
static long notifications, crash_at, calls;
static bool dense, sized;
/* What follows the id in the answer of a call. */
static char *tail;
static size_t tail_len;
static char out[OUT_BYTES];
static size_t out_len;

static void write_all(struct iovec *parts, int count) {
    while (count) {
        ssize_t wrote = writev(STDOUT_FILENO, parts, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) _exit(0); /* the client is gone */
        for (; count && (size_t)wrote >= parts->iov_len; parts++, count--) wrote -= (ssize_t)parts->iov_len;
        if (count) {
            parts->iov_base = (char *)parts->iov_base + wrote;
            parts->iov_len -= (size_t)wrote;
        }
    }
}

static void flush_out(void) {
    struct iovec all = {out, out_len};
    if (out_len) write_all(&all, 1);
    out_len = 0;
}

static void put(const char *bytes, size_t len) {
    if (out_len + len > sizeof out) flush_out();
    memcpy(out + out_len, bytes, len);
    out_len += len;
}

/* A long answer is not copied. */
static void put_large(struct iovec *parts, int count) {
    flush_out();
    write_all(parts, count);
}

static void push_notifications(void) {
    static char block[OUT_BYTES];
    char one[8192];
    int len = snprintf(one, sizeof one,
                       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"%0*d\"}}\n",
                       (int)notification_bytes, 7);
    long in_block = (long)sizeof block / len;
    for (long i = 0; i < in_block; i++) memcpy(block + i * len, one, (size_t)len);
    flush_out();
    for (long left = notifications; left > 0; left -= in_block) {
        struct iovec part = {block, (size_t)(left < in_block ? left : in_block) * (size_t)len};
        write_all(&part, 1);
    }
}

/* Text for answers whose length a call says: memory is touched as far as somebody asks. */
static char text[MOST_SIZED];

static void answer_sized(const char *id, size_t id_len, const char *line, size_t len) {
    const char *wish = memmem(line, len, "\"bytes\":", 8);
    size_t bytes = wish ? strtoul(wish + 8, NULL, 10) : payload;
    static size_t filled;
    if (bytes > MOST_SIZED) bytes = MOST_SIZED;
    if (bytes > filled) memset(text + filled, 'x', bytes - filled), filled = bytes;
    struct iovec parts[] = {{(void *)HEAD, sizeof HEAD - 1}, {(void *)id, id_len}, {(void *)TEXT_BEGIN, sizeof TEXT_BEGIN - 1},
                            {text, bytes}, {(void *)TEXT_END, sizeof TEXT_END - 1}};
    if (bytes > LARGE) put_large(parts, 5);
    else for (int i = 0; i < 5; i++) put(parts[i].iov_base, parts[i].iov_len);
}

static void answer_call(const char *id, size_t id_len, const char *line, size_t len) {
    if (notifications && memmem(line, len, "\"flood\"", 7)) push_notifications();
    if (sized) {
        answer_sized(id, id_len, line, len);
    } else if (tail_len > LARGE) {
        struct iovec parts[] = {{(void *)HEAD, sizeof HEAD - 1}, {(void *)id, id_len}, {tail, tail_len}};
        put_large(parts, 3);
    } else {
        put(HEAD, sizeof HEAD - 1);
        put(id, id_len);
        put(tail, tail_len);
    }
    if (++calls == crash_at) {
        flush_out();
        _exit(3);
    }
    if (sized && memmem(line, len, "\"die\"", 5)) {
        flush_out();
        if (memmem(line, len, "\"kill\"", 6)) raise(SIGKILL);
        _exit(3);
    }
}

static void answer(const char *line, size_t len) {
    static const char CALL[] = "tools/call\"";
    const char *end = line + len, *id = line + sizeof HEAD - 1;
    if (len < sizeof HEAD || memcmp(line, HEAD, sizeof HEAD - 1)) {
        id = memmem(line, len, "\"id\":", 5);
        if (!id) return; /* a notification */
        id += 5;
    }
    const char *id_end = id;
    if (*id == '"') for (id_end++; id_end < end && *id_end != '"'; id_end++) {}
    while (id_end < end && *id_end != ',' && *id_end != '}') id_end++;
    const char *method = memmem(line, len, "\"method\":\"", 10);
    if (!method) return; /* an answer */
    method += 10;
    size_t left = (size_t)(end - method), id_len = (size_t)(id_end - id);
    if (left > sizeof CALL && !memcmp(method, CALL, sizeof CALL - 1)) {
        answer_call(id, id_len, line, len);
        return;
    }
    const char *found = ",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n";
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        size_t wanted = strlen(OTHERS[i].method);
        if (left > wanted && !memcmp(method, OTHERS[i].method, wanted) && method[wanted] == '"') found = OTHERS[i].answer;
    }
    put(HEAD, sizeof HEAD - 1);
    put(id, id_len);
    put(found, strlen(found));
}

static void make_tail(void) {
    const char *begin = dense ? DENSE_BEGIN : TEXT_BEGIN, *end = dense ? DENSE_END : TEXT_END;
    size_t room = strlen(begin) + payload + 256 + strlen(end);
    tail = malloc(room);
    if (!tail) _exit(1);
    tail_len = strlen(begin);
    memcpy(tail, begin, tail_len);
    if (dense) {
        size_t full = tail_len + payload;
        for (long row = 0; row == 0 || tail_len < full; row++)
            tail_len += (size_t)snprintf(tail + tail_len, room - tail_len,
                                         "%s{\"row\":%ld,\"name\":\"item %ld\",\"tags\":[\"a\",\"b\"],\"ok\":true,\"price\":%ld.5}",
                                         row ? "," : "", row, row * 7, row % 90);
    } else {
        for (size_t i = 0; i < payload; i++) tail[tail_len++] = "it is all one long text with no end in sight, 0123456789 "[i % 57];
    }
    memcpy(tail + tail_len, end, strlen(end));
    tail_len += strlen(end);
}

static void options(int argc, char **argv) {
    const char *name = strrchr(argv[0], '/');
    dense = strstr(name ? name : argv[0], "dense") != NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        unsigned long number = value ? strtoul(value + 1, NULL, 10) : 0;
        size_t len = value ? (size_t)(value - argv[i]) : strlen(argv[i]);
#define IS(option) (len == sizeof option - 1 && !memcmp(argv[i], option, sizeof option - 1))
        if (IS("payload")) payload = number;
        else if (IS("notify")) notifications = (long)number;
        else if (IS("nsize")) notification_bytes = number < 8000 ? number : 8000;
        else if (IS("crash")) crash_at = (long)number;
        else if (IS("dense")) dense = true;
        else if (IS("sized")) sized = true;
        else {
            fprintf(stderr, "unknown option %s\n", argv[i]);
            _exit(2);
        }
    }
}

int main(int argc, char **argv) {
    options(argc, argv);
    make_tail();
    size_t room = IN_BYTES, len = 0;
    char *in = malloc(room);
    for (;;) {
        if (len == room) in = realloc(in, room *= 2);
        if (!in) return 1;
        ssize_t got = read(STDIN_FILENO, in + len, room - len);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0;
        char *line = in, *from = in + len, *end = in + len + got, *feed;
        while ((feed = memchr(from, '\n', (size_t)(end - from)))) {
            answer(line, (size_t)(feed - line));
            line = from = feed + 1;
        }
        len = (size_t)(end - line);
        memmove(in, line, len);
        flush_out();
    }
}
