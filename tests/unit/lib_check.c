#include "lib_check.h"

struct doc *yaml_of(struct arena *a, const char *text, struct dlq_err *err)
{
	struct doc *d = NULL;
	return doc_from_yaml(a, str_of(text), "test.yaml", &d, err) == DLQ_OK ? d : NULL;
}

struct doc *json_of(struct arena *a, const char *text, struct dlq_err *err)
{
	struct doc *d = NULL;
	return doc_from_json(a, str_of(text), "request body", &d, err) == DLQ_OK ? d : NULL;
}

struct queue_config *config_of(const char *yaml, struct dlq_err *err)
{
	struct arena a = {0};
	struct queue_config *q = NULL;
	struct doc *d = yaml_of(&a, yaml, err);
	if (d && queue_config_parse(d, STR("q"), STR(""), &q, err) != DLQ_OK)
		q = NULL;
	arena_release(&a);
	return q;
}

char *config_text(const struct queue_config *q)
{
	struct buf b = {0};
	struct json_out j;
	jout_init(&j, &b);
	queue_config_write(q, &j);
	return buf_take(&b, NULL);
}
