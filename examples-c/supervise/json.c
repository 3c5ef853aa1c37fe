#include "json.h"

#include <stdint.h>
#include <string.h>

static bool fail(struct json *json) {
    json->failed = true;
    json->at = json->end;
    return false;
}

static void skip_space(struct json *json) {
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r')) {
        json->at++;
    }
}

/* The next character; NUL, which is in no JSON, at the end. */
static char look(const struct json *json) {
    return json->at < json->end ? *json->at : '\0';
}

static bool take(struct json *json, char c) {
    if (json->at < json->end && *json->at == c) {
        json->at++;
        return true;
    }
    return false;
}

struct json json_of(const char *text, size_t len) {
    if (len == 0) {
        text = ""; /* it may be NULL, which cannot even be compared with itself plus 0 */
    }
    return (struct json){.at = text, .end = text + len};
}

enum json_kind json_kind(struct json *json) {
    skip_space(json);
    char c = look(json);
    switch (c) {
    case '{': return JSON_OBJECT;
    case '[': return JSON_ARRAY;
    case '"': return JSON_STRING;
    case 't': return JSON_TRUE;
    case 'f': return JSON_FALSE;
    case 'n': return JSON_NULL;
    default: return c == '-' || (c >= '0' && c <= '9') ? JSON_NUMBER : JSON_NONE;
    }
}

static bool enter(struct json *json, enum json_kind kind) {
    if (json_kind(json) != kind) {
        return false;
    }
    json->at++;
    json->fresh = true;
    return true;
}

bool json_object(struct json *json) {
    return enter(json, JSON_OBJECT);
}

bool json_array(struct json *json) {
    return enter(json, JSON_ARRAY);
}

/* What stands before a member or an element. False behind the last one. */
static bool begin_next(struct json *json, char closing) {
    bool first = json->fresh;
    json->fresh = false;
    skip_space(json);
    if (json->failed || take(json, closing)) {
        return false;
    }
    if (!first && !take(json, ',')) {
        return fail(json);
    }
    return true;
}

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

static bool hex4(struct json *json, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < 4; i++) {
        char c = look(json);
        uint32_t digit = 0;
        if (c >= '0' && c <= '9') {
            digit = (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)(c - 'A') + 10;
        } else {
            return fail(json);
        }
        *code = *code * 16 + digit;
        json->at++;
    }
    return true;
}

static void put_utf8(struct text *out, uint32_t code) {
    char bytes[4];
    size_t len = 0;
    if (code < 0x80) {
        bytes[len++] = (char)code;
    } else {
        if (code < 0x800) {
            bytes[len++] = (char)(0xc0 | code >> 6);
        } else {
            if (code < 0x10000) {
                bytes[len++] = (char)(0xe0 | code >> 12);
            } else {
                bytes[len++] = (char)(0xf0 | code >> 18);
                bytes[len++] = (char)(0x80 | (code >> 12 & 0x3f));
            }
            bytes[len++] = (char)(0x80 | (code >> 6 & 0x3f));
        }
        bytes[len++] = (char)(0x80 | (code & 0x3f));
    }
    text_add(out, bytes, len);
}

/* Behind `\u`. Half of a pair that stands alone is no character; what is shown for it is U+FFFD. */
static bool unicode(struct json *json, struct text *out) {
    uint32_t code;
    if (!hex4(json, &code)) {
        return false;
    }
    if (code >= 0xd800 && code < 0xdc00) {
        struct json ahead = *json;
        uint32_t low;
        if (take(&ahead, '\\') && take(&ahead, 'u') && hex4(&ahead, &low) && low >= 0xdc00 && low < 0xe000) {
            *json = ahead;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    if (out != NULL) {
        put_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    }
    return true;
}

/* Takes a string; with `out` NULL without looking at its characters twice. */
static bool string(struct json *json, struct text *out) {
    static const char ESCAPES[] = "\"\\/bfnrt";
    static const char MEANINGS[] = "\"\\/\b\f\n\r\t";
    json->at++;
    for (;;) {
        const char *plain = json->at;
        while (json->at < json->end && (unsigned char)*json->at >= 0x20 && *json->at != '"' && *json->at != '\\') {
            json->at++;
        }
        if (out != NULL) {
            text_add(out, plain, (size_t)(json->at - plain));
        }
        if (take(json, '"')) {
            return true;
        }
        if (!take(json, '\\')) {
            return fail(json);
        }
        char c = look(json);
        const char *escape = c != '\0' ? strchr(ESCAPES, c) : NULL;
        if (escape != NULL) {
            json->at++;
            if (out != NULL) {
                text_add(out, &MEANINGS[escape - ESCAPES], 1);
            }
        } else if (!take(json, 'u')) {
            return fail(json);
        } else if (!unicode(json, out)) {
            return false;
        }
    }
}

bool json_string(struct json *json, struct text *out) {
    if (json_kind(json) != JSON_STRING) {
        return false;
    }
    text_take(out, text_len(out));
    return string(json, out);
}

/* ---- Members and elements ---------------------------------------------------------------------------------------- */

bool json_member(struct json *json, struct text *name) {
    if (!begin_next(json, '}')) {
        return false;
    }
    if (!json_string(json, name)) {
        return fail(json);
    }
    skip_space(json);
    return take(json, ':') || fail(json);
}

bool json_element(struct json *json) {
    return begin_next(json, ']') && (json_kind(json) != JSON_NONE || fail(json));
}

/* ---- Values that are passed over --------------------------------------------------------------------------------- */

static bool word(struct json *json, const char *text) {
    size_t len = strlen(text);
    if ((size_t)(json->end - json->at) < len || memcmp(json->at, text, len) != 0) {
        return fail(json);
    }
    json->at += len;
    return true;
}

static bool digits(struct json *json) {
    const char *from = json->at;
    while (look(json) >= '0' && look(json) <= '9') {
        json->at++;
    }
    return json->at > from || fail(json);
}

static bool number(struct json *json) {
    take(json, '-');
    if (!take(json, '0') && !digits(json)) {
        return false;
    }
    if (take(json, '.') && !digits(json)) {
        return false;
    }
    if (take(json, 'e') || take(json, 'E')) {
        if (!take(json, '+')) {
            take(json, '-');
        }
        return digits(json);
    }
    return true;
}

/* A value that holds no other. */
static bool simple(struct json *json) {
    switch (json_kind(json)) {
    case JSON_STRING: return string(json, NULL);
    case JSON_NUMBER: return number(json);
    case JSON_TRUE: return word(json, "true");
    case JSON_FALSE: return word(json, "false");
    case JSON_NULL: return word(json, "null");
    default: return fail(json);
    }
}

/* Behind a name: the colon and the name are taken. */
static bool skip_name(struct json *json) {
    if (json_kind(json) != JSON_STRING || !string(json, NULL)) {
        return fail(json);
    }
    skip_space(json);
    return take(json, ':') || fail(json);
}

void json_skip(struct json *json) {
    /* One bit for each value around: whether it is an object. */
    unsigned char objects[JSON_DEPTH / 8 + 1] = {0};
    size_t depth = 0;
    json->fresh = false;
    for (;;) {
        enum json_kind kind = json_kind(json);
        if (kind == JSON_OBJECT || kind == JSON_ARRAY) {
            if (depth == JSON_DEPTH) {
                fail(json);
                return;
            }
            unsigned char bit = (unsigned char)(1U << depth % 8);
            objects[depth / 8] = (unsigned char)(kind == JSON_OBJECT ? objects[depth / 8] | bit : objects[depth / 8] & ~bit);
            depth++;
            json->at++;
            json->fresh = true;
        } else if (!simple(json)) {
            return;
        }
        /* Leaves what has come to its end. */
        while (depth > 0) {
            bool object = (objects[(depth - 1) / 8] >> (depth - 1) % 8 & 1) != 0;
            if (begin_next(json, object ? '}' : ']')) {
                if (object && !skip_name(json)) {
                    return;
                }
                break;
            }
            if (json->failed) {
                return;
            }
            depth--;
        }
        if (depth == 0) {
            return;
        }
    }
}

bool json_raw(struct json *json, const char **text, size_t *len) {
    skip_space(json);
    const char *from = json->at;
    json_skip(json);
    *text = from;
    *len = json->failed ? 0 : (size_t)(json->at - from);
    return !json->failed;
}

bool json_done(struct json *json) {
    skip_space(json);
    return !json->failed && json->at == json->end;
}
