/* Every address there is. The router, the 405 answer, the rights and the OpenAPI document come from this table. */
#include <string.h>

#include "http/http.h"

#define VIEWER ACCESS_TOKEN, ROLE_VIEWER
#define OPERATOR ACCESS_TOKEN, ROLE_OPERATOR
#define ADMIN ACCESS_TOKEN, ROLE_ADMIN
#define OPEN ACCESS_OPEN, ROLE_VIEWER

/* What GET /v1/dead-letters and its export know. */
#define FILTERS "queue group state id key reason error_type header redrive from to expires_within text where limit cursor"

/* The busiest first: the router takes the first that fits. */
const struct route routes[] = {
	{"POST", "/v1/queues/{queue}/messages", OPERATOR, BODY_MESSAGE, OP_SEND, api_send, NULL,
	 "Send one message; the body is the payload", "bytes", "Sent", "201 200"},
	{"POST", "/v1/queues/{queue}/batch", OPERATOR, BODY_BATCH, OP_SEND, api_batch, NULL,
	 "Send up to 1000 messages, one JSON object a line", "BatchLine", "BatchResults", "200 201 400"},
	{"POST", "/v1/queues/{queue}/receive", OPERATOR, BODY_JSON, OP_RECEIVE, api_receive, NULL,
	 "Take messages under a lease", "Receive", "Deliveries", "200"},
	{"POST", "/v1/queues/{queue}/settle", OPERATOR, BODY_SETTLE, OP_SETTLE, api_settle, NULL,
	 "Say how deliveries ended", "Settle", "SettleResults", "200"},
	{"POST", "/v1/queues/{queue}/extend", OPERATOR, BODY_JSON, OP_EXTEND, api_extend, NULL,
	 "Extend a lease", "Extend", "Lease", "200"},

	{"GET", "/v1/queues", VIEWER, BODY_NONE, OP_READ_QUEUES, api_queue_list, "limit cursor",
	 "List queues by name", NULL, "QueuePage", "200"},
	{"GET", "/v1/queues/{queue}", VIEWER, BODY_NONE, OP_READ_QUEUE, api_queue_get, NULL,
	 "Show a queue, its settings and its counts", NULL, "Queue", "200"},
	{"PUT", "/v1/queues/{queue}", ADMIN, BODY_JSON, OP_QUEUE_PUT, api_queue_put, NULL,
	 "Make a queue or change its settings", "QueueSettings", "Queue", "200 201"},
	{"DELETE", "/v1/queues/{queue}", ADMIN, BODY_NONE, OP_QUEUE_DELETE, api_queue_delete, NULL,
	 "Delete an empty queue", NULL, NULL, "204"},
	{"POST", "/v1/queues/{queue}/pause", OPERATOR, BODY_JSON, OP_QUEUE_PAUSE, api_queue_pause, NULL,
	 "Pause: messages are taken in, none is given", "Nothing", "Queue", "200"},
	{"POST", "/v1/queues/{queue}/resume", OPERATOR, BODY_JSON, OP_QUEUE_PAUSE, api_queue_resume, NULL,
	 "End a pause", "Nothing", "Queue", "200"},

	{"GET", "/v1/dead-letters", VIEWER, BODY_NONE, OP_READ_DEAD_LIST, api_dead_list,
	 FILTERS, "List dead letters, newest first", NULL, "DeadLetterPage", "200"},
	{"GET", "/v1/dead-letters/export", VIEWER, BODY_NONE, OP_EXPORT, api_dead_export,
	 FILTERS, "Full records, one a line; Dlq-Next goes on", NULL, "Record", "200"},
	{"POST", "/v1/dead-letters/import", OPERATOR, BODY_BATCH, OP_IMPORT, api_dead_import, "queue reason",
	 "Put up to 1000 records of an export or of the archive back, one a line", "Record", "ImportResults", "200"},
	{"GET", "/v1/dead-letters/{id}", VIEWER, BODY_NONE, OP_READ_DEAD, api_dead_get, NULL,
	 "Show a dead letter with its history", NULL, "DeadLetter", "200"},
	{"GET", "/v1/dead-letters/{id}/body", VIEWER, BODY_NONE, OP_READ_BODY, api_dead_body, "original",
	 "The payload of a dead letter", NULL, "bytes", "200"},
	{"POST", "/v1/dead-letters/{id}/redrive", OPERATOR, BODY_EDIT, OP_REDRIVE, api_dead_redrive, NULL,
	 "Put one dead letter back, edited if a body is given", "RedriveOne", "Redrive", "202"},
	{"POST", "/v1/dead-letters/{id}/discard", OPERATOR, BODY_JSON, OP_DISCARD, api_dead_discard, NULL,
	 "Drop a dead letter; its record stays", "Reason", "DeadState", "200"},
	{"POST", "/v1/dead-letters/{id}/archive", OPERATOR, BODY_JSON, OP_GIVE_UP, api_dead_archive, NULL,
	 "Give a dead letter up; it stays listed as archived until its retention has passed", "Reason", "DeadState", "200"},
	{"POST", "/v1/dead-letters/{id}/restore", OPERATOR, BODY_JSON, OP_RESTORE, api_dead_restore, NULL,
	 "Take a discard or an archive back: dead again, until its retention has passed", "Reason", "DeadState", "200"},

	{"GET", "/v1/groups", VIEWER, BODY_NONE, OP_READ_GROUPS, api_group_list, "queue status dead limit cursor",
	 "List groups of failures, those that failed last first", NULL, "GroupPage", "200"},
	{"GET", "/v1/groups/{group}", VIEWER, BODY_NONE, OP_READ_GROUP, api_group_get, NULL,
	 "Show a group: diagnosis, histograms, workers, samples", NULL, "GroupFull", "200"},
	{"POST", "/v1/groups/{group}/acknowledge", OPERATOR, BODY_JSON, OP_GROUP_SET, api_group_acknowledge, NULL,
	 "Somebody has seen it", "GroupReason", "GroupFull", "200"},
	{"POST", "/v1/groups/{group}/resolve", OPERATOR, BODY_JSON, OP_GROUP_SET, api_group_resolve, NULL,
	 "Its cause is gone; the next failure makes it regressed", "GroupReason", "GroupFull", "200"},
	{"POST", "/v1/groups/{group}/reopen", OPERATOR, BODY_JSON, OP_GROUP_SET, api_group_reopen, NULL,
	 "New again", "GroupReason", "GroupFull", "200"},
	{"POST", "/v1/groups/{group}/mute", OPERATOR, BODY_JSON, OP_GROUP_SET, api_group_mute, NULL,
	 "Quiet for a time or a number of deaths, or until it is reopened", "GroupMute", "GroupFull", "200"},
	{"POST", "/v1/groups/{group}/note", OPERATOR, BODY_JSON, OP_GROUP_SET, api_group_note, NULL,
	 "Set its note or its owner; an empty one ends it", "GroupNote", "GroupFull", "200"},
	{"POST", "/v1/groups/{group}/merge", OPERATOR, BODY_JSON, OP_GROUP_SET, api_group_merge, NULL,
	 "Count it with another group of its queue", "GroupMerge", "GroupFull", "200"},
	{"POST", "/v1/groups/{group}/split", OPERATOR, BODY_JSON, OP_GROUP_SET, api_group_split, NULL,
	 "End its merge", "GroupReason", "GroupFull", "200"},

	{"POST", "/v1/redrives", OPERATOR, BODY_JSON, OP_REDRIVE, api_redrive_start, NULL,
	 "Put back, discard, archive or restore what is chosen; guarded", "RedriveStart", "Redrive", "202 200"},
	{"POST", "/v1/redrives/preview", VIEWER, BODY_JSON, OP_PREVIEW, api_redrive_preview, NULL,
	 "What a redrive would take and change: a bounded step that changes nothing", "RedrivePreview", "Preview", "200"},
	{"GET", "/v1/redrives", VIEWER, BODY_NONE, OP_READ_REDRIVES, api_redrive_list, "limit cursor",
	 "List redrives, newest first", NULL, "RedrivePage", "200"},
	{"GET", "/v1/redrives/{id}", VIEWER, BODY_NONE, OP_READ_REDRIVE, api_redrive_get, NULL,
	 "Show a redrive", NULL, "Redrive", "200"},
	{"GET", "/v1/redrives/{id}/items", VIEWER, BODY_NONE, OP_READ_REDRIVE_ITEMS, api_redrive_items, "limit cursor",
	 "The ledger of a redrive: every member and what became of it", NULL, "RedriveItemPage", "200"},
	{"POST", "/v1/redrives/{id}/pause", OPERATOR, BODY_JSON, OP_REDRIVE_CONTROL, api_redrive_pause, NULL,
	 "Pause a running redrive", "Nothing", "Redrive", "200"},
	{"POST", "/v1/redrives/{id}/resume", OPERATOR, BODY_JSON, OP_REDRIVE_CONTROL, api_redrive_resume, NULL,
	 "Go on with a paused redrive, or past a halt", "Nothing", "Redrive", "200"},
	{"POST", "/v1/redrives/{id}/cancel", OPERATOR, BODY_JSON, OP_REDRIVE_CONTROL, api_redrive_cancel, NULL,
	 "End a redrive; what was put back stays so", "Nothing", "Redrive", "200"},

	{"GET", "/v1/archive", VIEWER, BODY_NONE, OP_READ_ARCHIVE, api_archive_list, "queue id from to limit cursor",
	 "List what reached the end of its retention, newest day first", NULL, "ArchivePage", "200"},
	{"GET", "/v1/archive/{id}", VIEWER, BODY_NONE, OP_READ_ARCHIVED, api_archive_get, NULL,
	 "A record of the archive as it stands there", NULL, "ArchivedRecord", "200"},

	{"GET", "/v1/audit", VIEWER, BODY_NONE, OP_READ_AUDIT, api_audit_list, "limit cursor",
	 "Who did what, newest first", NULL, "AuditPage", "200"},
	{"GET", "/v1/audit/verify", VIEWER, BODY_NONE, OP_AUDIT_VERIFY, api_audit_verify, NULL,
	 "Follow the hash chain of the audit trail from its first row to its newest", NULL, "AuditVerified", "200"},
	{"GET", "/v1/tokens", ADMIN, BODY_NONE, -1, api_token_list, "limit cursor",
	 "List tokens, without their secrets", NULL, "TokenPage", "200"},
	{"POST", "/v1/tokens", ADMIN, BODY_JSON, OP_TOKEN_ADD, api_token_add, NULL,
	 "Make a token; it is shown once", "TokenAdd", "Token", "201"},
	{"DELETE", "/v1/tokens/{name}", ADMIN, BODY_NONE, OP_TOKEN_REVOKE, api_token_revoke, NULL,
	 "Revoke a token", NULL, NULL, "204"},
	{"GET", "/v1/stats", VIEWER, BODY_NONE, OP_READ_QUEUES, api_stats, NULL, "Figures of the server", NULL, "Stats", "200"},
	{"GET", "/metrics", VIEWER, BODY_NONE, OP_READ_QUEUES, api_metrics, NULL,
	 "Figures of the server and of every queue as Prometheus text", NULL, "text", "200"},
	{"GET", "/v1/openapi.json", VIEWER, BODY_NONE, -1, api_openapi, NULL, "This document", NULL, "object", "200"},
	{"GET", "/healthz", OPEN, BODY_NONE, -1, api_healthz, NULL, "Whether the process lives", NULL, "Health", "200"},
	{"GET", "/readyz", OPEN, BODY_NONE, -1, api_readyz, NULL, "Whether durable work is taken", NULL, "Health", "200"},
};
const size_t routes_len = ARRAY_LEN(routes);

/* Whether path fits the pattern; *param is what stands for its placeholder. */
static bool fits(const char *pattern, struct str path, struct str *param)
{
	const char *p = path.p, *end = path.p + path.n;
	while (*pattern) {
		if (*pattern != '{') {
			if (p == end || *p != *pattern)
				return false;
			p++;
			pattern++;
			continue;
		}
		const char *from = p;
		while (p < end && *p != '/')
			p++;
		if (p == from)
			return false;
		*param = (struct str){from, (size_t)(p - from)};
		pattern = strchr(pattern, '}') + 1;
	}
	return p == end;
}

const struct route *route_find(struct str method, struct str path, struct str *param, enum dlq_code *code, char allow[64])
{
	size_t n = 0;
	*param = STR("");
	*code = DLQ_NOT_FOUND;
	allow[0] = '\0';
	for (size_t i = 0; i < routes_len; i++) {
		const struct route *r = &routes[i];
		if (!fits(r->pattern, path, param))
			continue;
		if (str_eqz(method, r->method)) {
			allow[0] = '\0';
			return r;
		}
		*code = DLQ_METHOD;
		if (strstr(allow, r->method))
			continue; /* two patterns fit */
		const char *words[] = {n ? ", " : "", r->method, strcmp(r->method, "GET") == 0 ? ", HEAD" : ""};
		for (size_t w = 0; w < ARRAY_LEN(words); w++) {
			size_t len = strlen(words[w]);
			ASSERT(n + len < 64);
			memcpy(allow + n, words[w], len + 1);
			n += len;
		}
	}
	return NULL;
}

const char *route_param_name(const struct route *route)
{
	const char *brace = strchr(route->pattern, '{');
	if (!brace)
		return NULL;
	return brace[1] == 'q' ? "queue" : brace[1] == 'i' ? "id" : brace[1] == 'g' ? "group" : "name";
}
