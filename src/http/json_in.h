/* json_in.h - request bodies: the shared readers over json_pull.h. */
#ifndef HTTP_JSON_IN_H
#define HTTP_JSON_IN_H

#include "http/http.h"
#include "http/json_pull.h"

/* Enters the object that the body must be; an empty body is an empty object: then it returns false without failing. */
bool jin_begin(struct http_req *r, struct json_pull *j);
/* Whether all went well; else answers the problem with line and column. */
bool jin_end(struct http_req *r, struct json_pull *j);
bool jin_duration(struct json_pull *j, int64_t min_ms, int64_t max_ms, int64_t *out);
bool jin_base64(struct json_pull *j, struct arena *a, struct str *out);
bool jin_worker(struct json_pull *j, struct str *out); /* worker or worker_version: at most 128 bytes of text */
/* An operator's reason: 1 to 1000 bytes, not only space. */
bool jin_reason(struct json_pull *j, struct str *out);
/* A body that says nothing: empty, or {}. */
bool jin_nothing(struct http_req *r);

#endif
