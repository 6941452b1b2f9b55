/*
 * select.h - which dead letters a request means and what it wants done with them: read out of a query or a JSON document, and
 * held against the rights of the token. Shared by lists, exports, redrives and previews.
 */
#ifndef HTTP_SELECT_H
#define HTTP_SELECT_H

#include "http/http.h"
#include "http/json_pull.h"

#define IDS_MAX 1000
#define PROGRAM_MAX 65536      /* bytes of a jq program */
#define TEXT_MAX 1024          /* bytes that a body is searched for */
#define EDIT_HEADERS_MAX 64    /* headers set, and as many removed */
#define PREVIEW_ITEMS_MAX 100
#define PREVIEW_ITEMS 5

/* All of it in the request's arena. */
struct wish {
	struct str queue;            /* as given; once allowed also that of the group or of the job to undo */
	struct str group;            /* fingerprint text, as sel.group */
	bool by_filter;
	struct engine_selection sel; /* of a list also limit and before_no of its filter */
	int64_t group_id, redrive_n; /* lists: what the names stand for */
	enum redrive_action action;
	struct engine_edit edit;
	struct str to, reason;
	bool dry_run, override_limit;
	struct redrive_guard guard;
	int preview_limit;
	int64_t preview_before;
	bool must_name_queue;        /* a token limited to queues has to name one of them */
	void (*then)(struct http_req *r);
};

/* A wish with nothing chosen yet, as r->u.wish. */
struct wish *wish_new(struct http_req *r);

/*
 * The keys of a JSON document that choose and edit; a document's own ones follow them in its list of known keys. wish_field
 * reads the value of the field-th (below WISH_FIELDS); errors stick to j. A null where it means "not given" takes the bit out of seen.
 */
#define WISH_FIELDS 7
#define WISH_KEYS "queue", "group", "ids", "filter", "undo", "action", "edit"
#define WISH_SELECTS 0x1fu /* bits of queue to undo */
void wish_field(struct http_req *r, struct json_pull *j, int field, unsigned *seen, struct wish *w);
/* After the last key: one selection, and an action and an edit that go with it. */
void wish_check(struct json_pull *j, unsigned seen, const struct wish *w);

/* {"jq", "set_headers", "remove_headers"} */
void edit_read(struct http_req *r, struct json_pull *j, struct engine_edit *e);
bool edit_any(const struct engine_edit *e);
/* The name of a queue, such as "to". */
void select_queue_name(struct json_pull *j, const char *what, struct str *out);

/* The filter of a list, with limit and cursor. Answers 400 itself and returns false. */
bool wish_query(struct http_req *r, struct wish *w);

/*
 * Reads what decides about rights (the queue of a group, of a job to undo, of a redrive that a list asks for) and answers 403 or 404, or goes
 * on with then(r) after r->op was released.
 */
void wish_allow(struct http_req *r, struct wish *w, void (*then)(struct http_req *r));

#endif
