/* OpenAPI 3.1, made from the route table and the schemas below. A test checks that every name used exists. */
#include <string.h>

#include "http/http.h"

struct schema {
	const char *name, *json;
};

#define S(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define TEXT "{\"type\":\"string\"}"
#define INT "{\"type\":\"integer\"}"
#define BOOL "{\"type\":\"boolean\"}"
#define TIME "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define LIST(item) "{\"type\":\"array\",\"items\":" item "}"
#define PAGE(item) "{\"type\":\"object\",\"required\":[\"items\",\"next\"],\"properties\":{\"items\":" LIST(S(item)) "," \
	"\"next\":{\"type\":[\"string\",\"null\"]},\"scanned\":" INT "}}"
#define DURATION "{\"type\":\"string\",\"examples\":[\"30s\",\"15m\",\"1h30m\"]}"
#define RATE "{\"type\":\"string\",\"examples\":[\"100/s\",\"6000/m\"]}"
#define STOP_AT "{\"type\":[\"integer\",\"string\"],\"examples\":[10,\"10%\"]}"
#define MAP "{\"type\":\"object\",\"additionalProperties\":" TEXT "}"
#define ACTION "{\"enum\":[\"redrive\",\"discard\",\"archive\",\"restore\"]}"
#define SELECTION                                                                                                                  \
	"\"queue\":" TEXT ",\"group\":" TEXT ",\"ids\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":" TEXT "},\"filter\":" S("Filter") \
	",\"undo\":" TEXT ",\"action\":" ACTION ",\"edit\":" S("Edit")
#define DEAD_PROPERTIES                                                                                                             \
	"\"dlq_id\":" TEXT ",\"queue\":" TEXT ",\"group\":" TEXT ",\"id\":" TEXT ",\"key\":" TEXT ",\"state\":{\"enum\":[\"dead\",\"redriving\",\"redriven\"," \
	"\"discarded\",\"archived\"]},\"reason\":" TEXT ",\"attempts\":" INT ",\"redrives\":" INT ",\"error\":" S("Failure") ",\"worker\":" TEXT  \
	",\"received_at\":" TIME ",\"first_failed_at\":" TIME ",\"last_failed_at\":" TIME ",\"died_at\":" TIME ",\"expires_at\":" TIME           \
	",\"expires_soon\":" BOOL ",\"body_bytes\":" INT ",\"content_type\":" TEXT ",\"edited\":" BOOL ",\"redrive_id\":" TEXT ",\"imported_id\":" TEXT \
	",\"operator\":" TEXT ",\"why\":" TEXT ",\"headers\":" MAP ",\"original_headers\":" MAP ",\"history\":" LIST(S("Attempt"))
#define RECORD "{\"type\":\"object\",\"required\":[\"dlq_id\",\"queue\",\"id\",\"reason\"],\"properties\":{" DEAD_PROPERTIES ",\"archived_at\":" TIME \
	",\"body\":" TEXT ",\"body_base64\":" TEXT ",\"edited_body\":" TEXT ",\"edited_body_base64\":" TEXT "}}"
#define LINE_ERROR "{\"type\":\"object\",\"required\":[\"code\",\"detail\",\"line\"],\"properties\":{\"code\":" TEXT ",\"detail\":" TEXT ",\"line\":" INT \
	",\"column\":" INT "}}"
#define GROUP_PROPERTIES                                                                                                          \
	"\"group\":" TEXT ",\"queue\":" TEXT ",\"error_type\":" TEXT ",\"message\":" TEXT ",\"sample\":" TEXT                         \
	",\"status\":{\"enum\":[\"new\",\"acknowledged\",\"muted\",\"resolved\",\"regressed\"]},\"status_at\":" TIME ",\"dead\":" INT      \
	",\"redriving\":" INT ",\"redriven\":" INT ",\"failed_again\":" INT ",\"discarded\":" INT ",\"archived\":" INT ",\"deaths\":" INT \
	",\"failures\":" INT ",\"recovered\":" INT ",\"first_seen\":" TIME ",\"last_seen\":" TIME ",\"owner\":" TEXT ",\"note\":" TEXT   \
	",\"muted_until\":" TIME ",\"muted_deaths\":" INT ",\"merged\":" INT ",\"is_merged\":" BOOL ",\"diagnosis\":" S("Diagnosis")

static const struct schema schemas[] = {
	{"Problem", "{\"type\":\"object\",\"required\":[\"type\",\"title\",\"status\",\"code\",\"detail\"],\"properties\":{\"type\":" TEXT
	            ",\"title\":" TEXT ",\"status\":" INT ",\"code\":" TEXT ",\"detail\":" TEXT ",\"line\":" INT ",\"column\":" INT
	            ",\"limit\":" INT ",\"redrive_id\":" TEXT "}}"},
	{"Nothing", "{\"type\":\"object\",\"maxProperties\":0}"},
	{"Sent", "{\"type\":\"object\",\"required\":[\"id\"],\"properties\":{\"id\":" TEXT ",\"duplicate\":" BOOL "}}"},
	{"BatchLine", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"id\":" TEXT ",\"key\":" TEXT ",\"body\":" TEXT
	              ",\"body_base64\":" TEXT ",\"content_type\":" TEXT ",\"headers\":{\"type\":\"object\",\"additionalProperties\":" TEXT
	              "},\"delay\":" DURATION ",\"ttl\":" DURATION "}}"},
	{"BatchResults", "{\"type\":\"object\",\"required\":[\"results\"],\"properties\":{\"results\":"
	                 LIST("{\"type\":\"object\",\"properties\":{\"id\":" TEXT ",\"duplicate\":" BOOL ",\"error\":" LINE_ERROR "}}") "}}"},
	{"Receive", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"max\":{\"type\":\"integer\",\"minimum\":1,"
	            "\"maximum\":1000,\"default\":1},\"wait\":" DURATION ",\"visibility_timeout\":" DURATION ",\"worker\":" TEXT
	            ",\"worker_version\":" TEXT "}}"},
	{"Deliveries", "{\"type\":\"object\",\"required\":[\"deliveries\"],\"properties\":{\"deliveries\":" LIST(S("Delivery")) "}}"},
	{"Delivery", "{\"type\":\"object\",\"required\":[\"receipt\",\"id\",\"attempts\",\"redrives\",\"received_at\",\"lease_until\"],"
	             "\"properties\":{\"receipt\":" TEXT ",\"id\":" TEXT ",\"key\":" TEXT ",\"body\":" TEXT ",\"body_base64\":" TEXT
	             ",\"content_type\":" TEXT ",\"headers\":{\"type\":\"object\",\"additionalProperties\":" TEXT "},\"attempts\":" INT
	             ",\"redrives\":" INT ",\"received_at\":" TIME ",\"lease_until\":" TIME "}}"},
	{"Failure", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"type\":" TEXT ",\"message\":" TEXT ",\"detail\":" TEXT
	            ",\"http_status\":" INT ",\"exit_code\":" INT ",\"fingerprint\":" TEXT "}}"},
	{"Settle", "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"results\"],\"properties\":{\"worker\":" TEXT ",\"worker_version\":" TEXT
	           ",\"results\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":{\"type\":\"object\","
	           "\"additionalProperties\":false,\"required\":[\"receipt\",\"outcome\"],\"properties\":{\"receipt\":" TEXT
	           ",\"outcome\":{\"enum\":[\"ok\",\"transient\",\"permanent\",\"release\"]},\"error\":" S("Failure") ",\"retry_after\":" DURATION
	           "}}}}}"},
	{"SettleResults", "{\"type\":\"object\",\"required\":[\"results\"],\"properties\":{\"results\":"
	                  LIST("{\"type\":\"object\",\"required\":[\"result\"],\"properties\":{\"result\":{\"enum\":[\"done\",\"retry\","
	                  "\"released\",\"dead\",\"gone\"]},\"attempts\":" INT ",\"retry_at\":" TIME ",\"reason\":" TEXT ",\"dlq_id\":" TEXT "}}") "}}"},
	{"Extend", "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"receipt\"],\"properties\":{\"receipt\":" TEXT
	           ",\"visibility_timeout\":" DURATION "}}"},
	{"Lease", "{\"type\":\"object\",\"properties\":{\"lease_until\":" TIME "}}"},
	{"QueueSettings", "{\"type\":\"object\",\"description\":\"Settings as in docs/config.md; {} for all defaults\"}"},
	{"Queue", "{\"type\":\"object\",\"required\":[\"name\",\"paused\",\"config\",\"counts\",\"totals\"],\"properties\":{\"name\":" TEXT
	          ",\"paused\":" BOOL ",\"created_at\":" TIME ",\"config\":" S("QueueSettings") ",\"counts\":{\"type\":\"object\","
	          "\"additionalProperties\":" INT "},\"totals\":{\"type\":\"object\",\"additionalProperties\":" INT "}}}"},
	{"QueuePage", PAGE("Queue")},
	{"Attempt", "{\"type\":\"object\",\"properties\":{\"attempt\":" INT ",\"redrive\":" INT ",\"at\":" TIME ",\"outcome\":" TEXT
	            ",\"error\":" S("Failure") ",\"worker\":" TEXT ",\"worker_version\":" TEXT ",\"retry_at\":" TIME "}}"},
	{"DeadLetter", "{\"type\":\"object\",\"required\":[\"dlq_id\",\"queue\",\"id\",\"state\",\"reason\",\"attempts\"],\"properties\":{" DEAD_PROPERTIES "}}"},
	{"DeadLetterPage", "{\"type\":\"object\",\"required\":[\"items\",\"next\",\"scanned\"],\"properties\":{\"items\":" LIST(S("DeadLetter"))
	                   ",\"next\":{\"type\":[\"string\",\"null\"]},\"scanned\":" INT ",\"errors\":" INT ",\"first_error\":" TEXT "}}"},
	{"Record", RECORD},
	{"ArchivedRecord", RECORD},
	{"ImportResults", "{\"type\":\"object\",\"required\":[\"imported\",\"results\"],\"properties\":{\"imported\":" INT ",\"results\":"
	                  LIST("{\"type\":\"object\",\"properties\":{\"dlq_id\":" TEXT ",\"queue\":" TEXT ",\"exists\":" BOOL ",\"error\":" LINE_ERROR "}}") "}}"},
	{"ArchiveEntry", "{\"type\":\"object\",\"required\":[\"dlq_id\",\"queue\",\"id\",\"state\",\"reason\",\"file\"],\"properties\":{\"dlq_id\":" TEXT
	                 ",\"queue\":" TEXT ",\"id\":" TEXT ",\"key\":" TEXT ",\"state\":" TEXT ",\"reason\":" TEXT ",\"error_type\":" TEXT
	                 ",\"died_at\":" TIME ",\"archived_at\":" TIME ",\"file\":" TEXT "}}"},
	{"ArchivePage", PAGE("ArchiveEntry")},
	{"Reason", "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"reason\"],\"properties\":{\"reason\":" TEXT "}}"},
	{"DeadState", "{\"type\":\"object\",\"properties\":{\"dlq_id\":" TEXT ",\"state\":{\"enum\":[\"discarded\",\"archived\",\"dead\"]}}}"},
	{"Diagnosis", "{\"type\":\"object\",\"required\":[\"kind\",\"confidence\",\"evidence\",\"advice\"],\"properties\":{\"kind\":{\"enum\":"
	              "[\"poison\",\"outage\",\"flaky\",\"bad_deploy\",\"unknown\"]},\"confidence\":{\"type\":\"integer\",\"minimum\":0,"
	              "\"maximum\":100},\"evidence\":" LIST(TEXT) ",\"advice\":" TEXT "}}"},
	{"Group", "{\"type\":\"object\",\"required\":[\"group\",\"queue\",\"status\",\"dead\"],\"properties\":{" GROUP_PROPERTIES "}}"},
	{"GroupPage", PAGE("Group")},
	{"GroupFull", "{\"type\":\"object\",\"required\":[\"group\",\"queue\",\"status\",\"dead\"],\"properties\":{" GROUP_PROPERTIES
	              ",\"rules\":" LIST(TEXT) ",\"workers\":" LIST("{\"type\":\"object\",\"properties\":{\"worker\":" TEXT ",\"version\":" TEXT
	              ",\"failures\":" INT ",\"first_seen\":" TIME ",\"last_seen\":" TIME "}}") ",\"minutes\":" LIST(S("Bucket"))
	              ",\"hours\":" LIST(S("Bucket")) ",\"merged_groups\":" LIST(S("Group")) ",\"samples\":" LIST(S("DeadLetter")) "}}"},
	{"Bucket", "{\"type\":\"object\",\"properties\":{\"at\":" TIME ",\"failures\":" INT ",\"deaths\":" INT "}}"},
	{"GroupReason", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"reason\":" TEXT "}}"},
	{"GroupMute", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"reason\":" TEXT ",\"for\":" DURATION
	              ",\"deaths\":{\"type\":\"integer\",\"minimum\":1}}}"},
	{"GroupNote", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"reason\":" TEXT ",\"note\":" TEXT ",\"owner\":" TEXT "}}"},
	{"GroupMerge", "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"into\"],\"properties\":{\"reason\":" TEXT
	               ",\"into\":" TEXT "}}"},
	{"Filter", "{\"type\":\"object\",\"additionalProperties\":false,\"minProperties\":1,\"properties\":{\"queue\":" TEXT ",\"group\":" TEXT
	           ",\"reason\":" TEXT ",\"error_type\":" TEXT ",\"key\":" TEXT ",\"id\":" TEXT ",\"headers\":{\"type\":\"object\",\"maxProperties\":8,"
	           "\"additionalProperties\":" TEXT "},\"redrive\":" TEXT ",\"from\":" TIME ",\"to\":" TIME ",\"expires_within\":" DURATION
	           ",\"text\":{\"type\":\"string\",\"maxLength\":1024},\"where\":{\"type\":\"string\",\"description\":\"a jq program\"}}}"},
	{"Edit", "{\"type\":\"object\",\"additionalProperties\":false,\"minProperties\":1,\"properties\":{\"jq\":{\"type\":\"string\",\"description\":\"a jq "
	         "program over the JSON body\"},\"from\":{\"enum\":[\"original\",\"edited\"]},\"set_headers\":{\"type\":\"object\",\"maxProperties\":64,\"additionalProperties\":" TEXT
	         "},\"remove_headers\":{\"type\":\"array\",\"maxItems\":64,\"items\":" TEXT "}}}"},
	{"RedriveOne", "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"reason\"],\"properties\":{\"reason\":" TEXT ",\"body\":" TEXT
	               ",\"body_base64\":" TEXT ",\"edit\":" S("Edit") ",\"to\":" TEXT ",\"override\":" BOOL "}}"},
	{"RedriveStart", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" SELECTION ",\"to\":" TEXT ",\"reason\":" TEXT
	                 ",\"dry_run\":" BOOL ",\"first\":{\"type\":\"integer\",\"minimum\":1},\"canary_wait\":" DURATION ",\"rate\":" RATE
	                 ",\"stop_at\":" STOP_AT ",\"override\":" BOOL "}}"},
	{"RedrivePreview", "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" SELECTION ",\"limit\":{\"type\":\"integer\",\"minimum\":0,"
	                   "\"maximum\":100,\"default\":5},\"cursor\":" TEXT ",\"override\":" BOOL "}}"},
	{"Preview", "{\"type\":\"object\",\"required\":[\"looked\",\"selected\",\"changed\",\"unchanged\",\"failed\",\"over_limit\",\"items\",\"next\"],"
	            "\"properties\":{\"looked\":" INT ",\"selected\":" INT ",\"changed\":" INT ",\"unchanged\":" INT ",\"failed\":" INT
	            ",\"over_limit\":" INT ",\"errors\":" INT ",\"first_error\":" TEXT ",\"next\":{\"type\":[\"string\",\"null\"]},\"items\":"
	            LIST("{\"type\":\"object\",\"required\":[\"dlq_id\",\"id\",\"queue\"],\"properties\":{\"dlq_id\":" TEXT ",\"id\":" TEXT ",\"queue\":" TEXT
	                 ",\"error\":" TEXT ",\"over_limit\":" BOOL ",\"changes\":"
	                 LIST("{\"type\":\"object\",\"properties\":{\"path\":" TEXT ",\"old\":" TEXT ",\"new\":" TEXT "}}")
	                 ",\"more_changes\":" INT ",\"headers_set\":" MAP ",\"headers_removed\":" LIST(TEXT) ",\"warning\":" TEXT "}}") "}}"},
	{"Redrive", "{\"type\":\"object\",\"properties\":{\"redrive_id\":" TEXT ",\"action\":" ACTION ",\"queue\":" TEXT ",\"group\":" TEXT
	            ",\"selection\":" TEXT ",\"to\":" TEXT ",\"state\":{\"enum\":[\"running\",\"paused\",\"done\",\"cancelled\",\"halted\"]}"
	            ",\"phase\":{\"enum\":[\"selecting\",\"canary\",\"waiting\",\"ramp\"]},\"halted_why\":" TEXT ",\"first\":" INT ",\"canary_wait\":" DURATION
	            ",\"rate\":" RATE ",\"stop_at\":" STOP_AT ",\"operator\":" TEXT ",\"reason\":" TEXT ",\"total\":" INT ",\"looked\":" INT
	            ",\"edited\":{\"type\":\"object\",\"properties\":{\"changed\":" INT ",\"unchanged\":" INT ",\"failed\":" INT "}},\"sent\":" INT
	            ",\"skipped\":" INT ",\"cancelled\":" INT ",\"succeeded\":" INT ",\"failed_again\":" INT ",\"started_at\":" TIME
	            ",\"ended_at\":" TIME "}}"},
	{"RedrivePage", PAGE("Redrive")},
	{"RedriveItem", "{\"type\":\"object\",\"required\":[\"dlq_id\",\"state\"],\"properties\":{\"dlq_id\":" TEXT ",\"state\":{\"enum\":"
	                "[\"selected\",\"sent\",\"succeeded\",\"failed_again\",\"unknown\",\"skipped\",\"cancelled\"]},\"sent_at\":" TIME
	                ",\"outcome_at\":" TIME ",\"note\":" TEXT "}}"},
	{"RedriveItemPage", PAGE("RedriveItem")},
	{"AuditRow", "{\"type\":\"object\",\"properties\":{\"n\":" INT ",\"at\":" TIME ",\"operator\":" TEXT ",\"action\":" TEXT ",\"queue\":" TEXT
	             ",\"target\":" TEXT ",\"reason\":" TEXT ",\"outcome\":" TEXT ",\"detail\":" TEXT ",\"hash\":" TEXT "}}"},
	{"AuditPage", PAGE("AuditRow")},
	{"AuditVerified", "{\"type\":\"object\",\"required\":[\"ok\",\"rows\"],\"properties\":{\"ok\":" BOOL ",\"rows\":" INT ",\"broken\":" INT
	                  ",\"newest\":" INT ",\"hash\":" TEXT "}}"},
	{"TokenAdd", "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\",\"role\"],\"properties\":{\"name\":" TEXT
	             ",\"role\":{\"enum\":[\"viewer\",\"operator\",\"admin\"]},\"queues\":" LIST(TEXT) ",\"expires_in\":" DURATION "}}"},
	{"Token", "{\"type\":\"object\",\"properties\":{\"name\":" TEXT ",\"role\":" TEXT ",\"token\":" TEXT "}}"},
	{"TokenRow", "{\"type\":\"object\",\"properties\":{\"name\":" TEXT ",\"role\":" TEXT ",\"queues\":" LIST(TEXT)
	             ",\"created_at\":" TIME ",\"expires_at\":" TIME ",\"revoked_at\":" TIME "}}"},
	{"TokenPage", PAGE("TokenRow")},
	{"Stats", "{\"type\":\"object\",\"properties\":{\"version\":" TEXT ",\"uptime\":" TEXT ",\"ready\":" BOOL "},\"additionalProperties\":" INT "}"},
	{"Health", "{\"type\":\"object\",\"properties\":{\"status\":{\"const\":\"ok\"}}}"},
};

/* What a route takes or answers: its media type and schema. */
static void content(struct json_out *j, const struct route *r, const char *schema)
{
	const char *type = strcmp(schema, "bytes") == 0 ? "application/octet-stream"
	                   : strcmp(schema, "text") == 0 ? "text/plain"
	                   : strcmp(schema, "BatchLine") == 0 || strcmp(schema, "Record") == 0 ? "application/x-ndjson" : "application/json";
	char ref[80] = "#/components/schemas/";
	(void)r;
	jout_key(j, "content");
	jout_open(j, '{');
	jout_key(j, type);
	jout_open(j, '{');
	jout_key(j, "schema");
	jout_open(j, '{');
	if (schema[0] >= 'a') {
		jout_kz(j, "type", strcmp(schema, "object") == 0 ? "object" : "string");
	} else {
		strncat(ref, schema, sizeof ref - strlen(ref) - 1);
		jout_kz(j, "$ref", ref);
	}
	jout_close(j, '}');
	jout_close(j, '}');
	jout_close(j, '}');
}

static void parameter(struct json_out *j, struct str name, const char *in, bool required, const char *type)
{
	jout_open(j, '{');
	jout_kstr(j, "name", name);
	jout_kz(j, "in", in);
	jout_kbool(j, "required", required);
	jout_key(j, "schema");
	jout_open(j, '{');
	jout_kz(j, "type", type);
	jout_close(j, '}');
	jout_close(j, '}');
}

static void parameters(struct json_out *j, const struct route *r)
{
	static const char *const message_headers[] = {"Dlq-Id", "Dlq-Key", "Dlq-Delay", "Dlq-Ttl"};
	const char *name = route_param_name(r);
	jout_key(j, "parameters");
	jout_open(j, '[');
	if (name)
		parameter(j, str_of(name), "path", true, "string");
	for (const char *p = r->query; p && *p;) {
		size_t n = strcspn(p, " ");
		struct str word = {p, n};
		if (str_eqz(word, "header")) {
			jout_raw(j, STR("{\"name\":\"header\",\"in\":\"query\",\"required\":false,\"explode\":true,\"schema\":{\"type\":\"array\",\"maxItems\":8,"
			                "\"items\":" TEXT "},\"description\":\"name=value\"}"));
		} else {
			parameter(j, word, "query", false, str_eqz(word, "limit") ? "integer" : str_eqz(word, "original") || str_eqz(word, "dead") ? "boolean" : "string");
		}
		p += n + strspn(p + n, " ");
	}
	if (r->body == BODY_MESSAGE)
		for (size_t i = 0; i < ARRAY_LEN(message_headers); i++)
			parameter(j, str_of(message_headers[i]), "header", false, "string");
	jout_close(j, ']');
}

static void responses(struct json_out *j, const struct route *r)
{
	jout_key(j, "responses");
	jout_open(j, '{');
	for (const char *p = r->statuses; *p;) {
		char status[4] = {p[0], p[1], p[2], 0};
		jout_key(j, status);
		jout_open(j, '{');
		jout_kz(j, "description", p[0] == '2' ? "Success" : "Refused, with the same document");
		if (r->answer)
			content(j, r, r->answer);
		if (r->op == OP_EXPORT) {
			jout_key(j, "headers");
			jout_raw(j, STR("{\"Dlq-Next\":{\"schema\":" TEXT "},\"Dlq-Scanned\":{\"schema\":" INT "},\"Dlq-Errors\":{\"schema\":" INT "}}"));
		}
		jout_close(j, '}');
		p += 3 + (p[3] == ' ');
	}
	jout_key(j, "default");
	jout_open(j, '{');
	jout_kz(j, "description", "A problem (RFC 9457)");
	jout_key(j, "content");
	jout_raw(j, STR("{\"application/problem+json\":{\"schema\":" S("Problem") "}}"));
	jout_close(j, '}');
	jout_close(j, '}');
}

static void operation(struct json_out *j, const struct route *r)
{
	char method[8] = "", id[80];
	size_t n = 0;
	for (; r->method[n] && n < sizeof method - 1; n++)
		method[n] = (char)(r->method[n] | 32);
	jout_key(j, method);
	/* get_v1_queues_queue_pause: unique, since method and path are */
	struct buf b = {.p = NULL, .max = sizeof id};
	buf_addz(&b, method);
	for (const char *p = r->pattern; *p; p++)
		if (*p != '{' && *p != '}')
			buf_addc(&b, *p == '/' || *p == '.' || *p == '-' ? '_' : *p);
	jout_open(j, '{');
	jout_kstr(j, "operationId", buf_str(&b));
	buf_release(&b);
	jout_kz(j, "summary", r->summary);
	jout_key(j, "security");
	jout_raw(j, r->access == ACCESS_OPEN ? STR("[]") : STR("[{\"bearer\":[]}]"));
	if (r->access == ACCESS_TOKEN)
		jout_kz(j, "x-role", role_name(r->role));
	parameters(j, r);
	if (r->request) {
		jout_key(j, "requestBody");
		jout_open(j, '{');
		content(j, r, r->request);
		jout_close(j, '}');
	}
	responses(j, r);
	jout_close(j, '}');
}

void openapi_write(const char *version, struct buf *out)
{
	struct json_out j;
	jout_init(&j, out);
	jout_open(&j, '{');
	jout_kz(&j, "openapi", "3.1.0");
	jout_key(&j, "info");
	jout_open(&j, '{');
	jout_kz(&j, "title", "dlq");
	jout_kz(&j, "version", version);
	jout_close(&j, '}');
	jout_key(&j, "paths");
	jout_open(&j, '{');
	for (size_t i = 0; i < routes_len; i++) {
		bool first = true;
		for (size_t k = 0; k < i; k++)
			first = first && strcmp(routes[k].pattern, routes[i].pattern) != 0;
		if (!first)
			continue;
		jout_key(&j, routes[i].pattern);
		jout_open(&j, '{');
		for (size_t k = i; k < routes_len; k++)
			if (strcmp(routes[k].pattern, routes[i].pattern) == 0)
				operation(&j, &routes[k]);
		jout_close(&j, '}');
	}
	jout_close(&j, '}');
	jout_key(&j, "components");
	jout_open(&j, '{');
	jout_key(&j, "securitySchemes");
	jout_raw(&j, STR("{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"}}"));
	jout_key(&j, "schemas");
	jout_open(&j, '{');
	for (size_t i = 0; i < ARRAY_LEN(schemas); i++) {
		jout_key(&j, schemas[i].name);
		jout_raw(&j, str_of(schemas[i].json));
	}
	jout_close(&j, '}');
	jout_close(&j, '}');
	jout_close(&j, '}');
	buf_addc(out, '\n');
}
