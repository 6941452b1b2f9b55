/*
 * error.h - every error dlq can answer, in one table.
 *
 * The HTTP status, the problem `code`, the exit code of the command line and the word "may be tried
 * again" all come from here, so they cannot drift apart. Codes are stable: add at the end, never renumber.
 */
#ifndef DLQ_ERROR_H
#define DLQ_ERROR_H

/*   name              problem code          HTTP exit retriable  title */
#define DLQ_ERROR_TABLE(X)                                                                        \
	X(OK,               "ok",                 200, 0,  0, "Success")                              \
	X(BAD_REQUEST,      "bad_request",        400, 2,  0, "The request is not valid")             \
	X(INVALID_JSON,     "invalid_json",       400, 2,  0, "The body is not valid JSON")           \
	X(INVALID_NAME,     "invalid_name",       400, 2,  0, "The name breaks the rule for names")   \
	X(INVALID_SETTING,  "invalid_setting",    400, 2,  0, "A setting is not valid")               \
	X(UNAUTHENTICATED,  "unauthenticated",    401, 4,  0, "No valid token was given")             \
	X(FORBIDDEN,        "forbidden",          403, 4,  0, "The token does not allow this")        \
	X(NOT_FOUND,        "not_found",          404, 3,  0, "There is no such thing")               \
	X(METHOD,           "method_not_allowed", 405, 2,  0, "This address does not take that method") \
	X(CONFLICT,         "conflict",           409, 5,  0, "The state does not allow this")        \
	X(IN_REDRIVE,       "in_redrive",         409, 5,  0, "The dead letter is in an active redrive") \
	X(GONE,             "gone",               410, 5,  0, "The receipt is no longer valid")       \
	X(TOO_LARGE,        "too_large",          413, 2,  0, "The body is larger than the limit")    \
	X(HEADERS_TOO_LARGE,"headers_too_large",  431, 2,  0, "The headers are larger than the limit") \
	X(QUEUE_FULL,       "queue_full",         429, 6,  1, "The queue is at its limit")            \
	X(BUSY,             "busy",               503, 6,  1, "Too much work is waiting")             \
	X(SHUTTING_DOWN,    "shutting_down",      503, 6,  1, "The server is shutting down")          \
	X(STORE_FULL,       "store_full",         507, 7,  1, "The disk of the store is full")        \
	X(STORE_FAILED,     "store_failed",       503, 7,  0, "The store failed and refuses work")    \
	X(STORE_CORRUPT,    "store_corrupt",      500, 7,  0, "The store is damaged")                 \
	X(STORE_NEWER,      "store_newer",        500, 7,  0, "The store was written by a newer dlq") \
	X(STORE_LOCKED,     "store_locked",       500, 7,  0, "The store is in use by another server") \
	X(TIMEOUT,          "timeout",            504, 6,  1, "It took too long")                     \
	X(UNREACHABLE,      "unreachable",        502, 6,  1, "The other side cannot be reached")     \
	X(NO_MEMORY,        "no_memory",          500, 7,  1, "Out of memory")                        \
	X(SYSTEM,           "system",             500, 7,  0, "The operating system refused")         \
	X(INTERNAL,         "internal",           500, 70, 0, "A fault in dlq itself")                \
	X(EXPECTATION,      "expectation_failed", 417, 2,  0, "The Expect header asks for what is not done here")

enum dlq_code {
#define X(name, code, http, exit, retriable, title) DLQ_##name,
	DLQ_ERROR_TABLE(X)
#undef X
	DLQ_CODE_COUNT
};

/*
 * What went wrong, where, why and what to do, in one line of text. `detail` never holds payload bytes
 * or secrets. A struct dlq_err is plain memory: zero it before use, nothing to release.
 */
struct dlq_err {
	enum dlq_code code;
	char detail[500];
};

#endif
