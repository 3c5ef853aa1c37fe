/*
 * Drives the JSON reader of examples-c/supervise. Each line of stdin is read as JSON in two ways, by asking for each part
 * and by passing over the whole, which must agree; so must they on each beginning of a short line. What came out by asking
 * is printed as JSON again, or FAILED.
 *
 * With the argument `skip` lines are only passed over, and PASSED is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples-c/supervise/json.h"

#define SHORT 400

static void dump(struct json *json, struct text *out);

static void dump_members(struct json *json, struct text *out) {
    struct text name = {0};
    const char *before = "{";
    while (json_member(json, &name)) {
        text_put(out, before);
        text_json(out, text_begin(&name), text_len(&name));
        text_put(out, ":");
        dump(json, out);
        before = ",";
    }
    text_put(out, *before == '{' ? "{}" : "}");
    text_free(&name);
}

static void dump_elements(struct json *json, struct text *out) {
    const char *before = "[";
    while (json_element(json)) {
        text_put(out, before);
        dump(json, out);
        before = ",";
    }
    text_put(out, *before == '[' ? "[]" : "]");
}

static void dump(struct json *json, struct text *out) {
    struct text string = {0};
    const char *raw;
    size_t len;
    if (json_object(json)) {
        dump_members(json, out);
    } else if (json_array(json)) {
        dump_elements(json, out);
    } else if (json_string(json, &string)) {
        text_json(out, text_begin(&string), text_len(&string));
    } else if (json_raw(json, &raw, &len)) {
        text_add(out, raw, len);
    }
    text_free(&string);
}

/* A copy that ends where its block ends: a byte read behind it is one that valgrind sees. */
static bool both(const char *line, size_t len, struct text *out) {
    char *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) {
        exit(2);
    }
    memcpy(copy, line, len);
    struct json asked = json_of(copy, len);
    struct json skipped = json_of(copy, len);
    dump(&asked, out);
    json_skip(&skipped);
    bool is_done = json_done(&asked);
    if (is_done != json_done(&skipped)) {
        fprintf(stderr, "asked and passed over differ: %.*s\n", (int)len, line);
        exit(1);
    }
    free(copy);
    return is_done;
}

static bool passes(const char *line, size_t len) {
    struct json json = json_of(line, len);
    json_skip(&json);
    return json_done(&json);
}

int main(int argc, char **argv) {
    bool skips = argc > 1 && strcmp(argv[1], "skip") == 0;
    struct text in = {0};
    size_t got;
    while ((got = fread(text_reserve(&in, 65536), 1, 65536, stdin)) > 0) {
        text_grew(&in, got);
    }
    while (text_len(&in) > 0) {
        const char *line = text_begin(&in);
        const char *feed = memchr(line, '\n', text_len(&in));
        if (feed == NULL) {
            return 2;
        }
        size_t len = (size_t)(feed - line);
        if (skips) {
            puts(passes(line, len) ? "PASSED" : "FAILED");
            text_take(&in, len + 1);
            continue;
        }
        for (size_t part = 0; len < SHORT && part < len; part++) {
            struct text ignored = {0};
            both(line, part, &ignored);
            text_free(&ignored);
        }
        struct text out = {0};
        if (both(line, len, &out)) {
            fwrite(text_begin(&out), 1, text_len(&out), stdout);
            putchar('\n');
        } else {
            puts("FAILED");
        }
        text_free(&out);
        text_take(&in, len + 1);
    }
    text_free(&in);
    return 0;
}
