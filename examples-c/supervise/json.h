/*
 * A pull reader of JSON: the caller says what it expects next, and asks for it. No tree is built and nothing has a fixed
 * size. It is made for what the library has handed over, which is valid; of anything else it reads no byte beyond the
 * end, and fails. A reader that has failed stays so, and finds nothing any more.
 *
 *     struct json json = json_of(text, len);
 *     if (json_object(&json)) {
 *         while (json_member(&json, &name)) {
 *             if (text_is(&name, "uri")) json_string(&json, &uri);
 *             else json_skip(&json);
 *         }
 *     }
 */
#ifndef SUPERVISE_JSON_H
#define SUPERVISE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/* Values that are passed over may have so many values around each other. What is entered is bounded by the caller. */
#define JSON_DEPTH 1000

struct json {
    const char *at;
    const char *end;
    bool fresh;  /* behind an opening bracket: no comma comes first */
    bool failed; /* it is no JSON, or nested too deeply */
};

enum json_kind { JSON_NONE, JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL };

struct json json_of(const char *text, size_t len);

/* The kind of the value that is next; JSON_NONE at the end and where there is none. Nothing is taken. */
enum json_kind json_kind(struct json *json);

/* Enter the value that is next. False, and nothing is taken, if it is something else. */
bool json_object(struct json *json);
bool json_array(struct json *json);

/*
 * The next member of the object, or the next element of the array, that was entered last and not left: true, and its
 * value is next. False: there is none, and the object or array is left. The value must be taken before the next call.
 * `name` is replaced.
 */
bool json_member(struct json *json, struct text *name);
bool json_element(struct json *json);

/* Takes a string, whose characters replace what `out` holds. False, and nothing is taken, if it is something else. */
bool json_string(struct json *json, struct text *out);

/* Takes any value, and says where it stands. */
bool json_raw(struct json *json, const char **text, size_t *len);
void json_skip(struct json *json);

/* Whether everything was taken, without a failure. */
bool json_done(struct json *json);

#endif
