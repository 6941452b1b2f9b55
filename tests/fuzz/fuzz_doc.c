/* Settings from any bytes, as YAML and as JSON: refused with a reason, or taken and then written and read back the same. */
#include "core/policy.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_config(const struct queue_config *q, struct buf *b)
{
	struct json_out j;
	jout_init(&j, b);
	queue_config_write(q, &j);
	ASSERT(!b->overflow);
}

static void round_trip(const struct queue_config *q)
{
	struct arena a = {0};
	struct buf first = {0}, second = {0};
	struct doc *d = NULL;
	struct queue_config *back = NULL;
	struct dlq_err err = {0};
	write_config(q, &first);
	ASSERT(doc_from_json(&a, buf_str(&first), "written", &d, &err) == DLQ_OK);
	ASSERT(queue_config_parse(d, STR(""), STR(""), &back, &err) == DLQ_OK);
	write_config(back, &second);
	ASSERT(str_eq(buf_str(&first), buf_str(&second)));
	queue_config_unref(back);
	buf_release(&first);
	buf_release(&second);
	arena_release(&a);
}

/* The rules at work, the patterns too. */
static void decide(const struct policy *p, struct str text)
{
	struct failure f = {.type = text, .message = text, .http_status = 503, .exit_code = 1};
	struct route_msg m = {.attempts = 3};
	struct route_outcome o = {.kind = classify(p, &f, OUTCOME_TRANSIENT)};
	struct effect e = route(&m, p, &o, 1000, 0.5);
	ASSERT(e.attempts == 4 && (e.kind == EFFECT_DEAD || (e.kind == EFFECT_RETRY && e.at_ms >= 1000)));
}

static void check_refusal(enum dlq_code code, const struct dlq_err *err)
{
	ASSERT(code == DLQ_INVALID_SETTING || code == DLQ_INVALID_JSON || code == DLQ_INVALID_NAME);
	ASSERT(err->code == code && err->detail[0]);
	for (const char *p = err->detail; *p; p++)
		ASSERT((unsigned char)*p >= 0x20);
}

static void use(const struct doc *d, struct str text)
{
	struct queue_config *q = NULL;
	struct dlq_err err = {0};
	enum dlq_code code = queue_config_parse(d, STR("q"), STR(""), &q, &err);
	if (code != DLQ_OK) {
		check_refusal(code, &err);
		return;
	}
	round_trip(q);
	decide(&q->policy, text);
	queue_config_unref(q);
}

static void check_tree(const struct doc *d, int depth)
{
	ASSERT(depth <= DOC_MAX_DEPTH && d->line >= 1);
	for (const struct doc *c = d->child; c; c = c->next) {
		ASSERT(c->parent == d);
		check_tree(c, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	for (int json = 0; json < 2; json++) {
		struct arena a = {0};
		struct doc *d = NULL;
		struct dlq_err err = {0};
		enum dlq_code code = json ? doc_from_json(&a, text, "fuzz", &d, &err) : doc_from_yaml(&a, text, "fuzz", &d, &err);
		if (code == DLQ_OK) {
			check_tree(d, 0);
			use(d, text);
		} else {
			check_refusal(code, &err);
		}
		arena_release(&a);
	}
	return 0;
}
