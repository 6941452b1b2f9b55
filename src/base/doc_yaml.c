/* The events of libyaml as a struct doc. Anchors, aliases and tags are refused: nothing in a settings file needs them. */
#include "base/doc_build.h"

#include <string.h>
#include <yaml.h>

static struct str event_text(const yaml_event_t *e)
{
	return (struct str){(const char *)e->data.scalar.value, e->data.scalar.length};
}

static bool is_null(const yaml_event_t *e)
{
	struct str s = event_text(e);
	return e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (s.n == 0 || str_eqz(s, "~") || str_eqz(s, "null") || str_eqz(s, "Null") || str_eqz(s, "NULL"));
}

static enum dlq_code on_scalar(struct doc_builder *b, const yaml_event_t *e)
{
	int line = (int)e->start_mark.line + 1, col = (int)e->start_mark.column + 1;
	if (build_wants_key(b))
		return build_key(b, arena_str(b->arena, event_text(e)), line);
	struct doc *d = build_add(b, is_null(e) ? DOC_NULL : DOC_SCALAR, line, col);
	if (d->kind == DOC_SCALAR) {
		d->text = arena_str(b->arena, event_text(e));
		d->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	}
	return DLQ_OK;
}

static enum dlq_code on_open(struct doc_builder *b, enum doc_kind kind, const yaml_event_t *e)
{
	int line = (int)e->start_mark.line + 1, col = (int)e->start_mark.column + 1;
	if (build_wants_key(b))
		return build_fail(b, line, "a key must be plain text, not a list or a map");
	return build_open(b, kind, line, col) ? DLQ_OK : DLQ_INVALID_SETTING;
}

/* Whether the event carries an anchor or a tag of its own. */
static bool is_marked(const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		return e->data.scalar.anchor || e->data.scalar.tag;
	case YAML_SEQUENCE_START_EVENT:
		return e->data.sequence_start.anchor || e->data.sequence_start.tag;
	case YAML_MAPPING_START_EVENT:
		return e->data.mapping_start.anchor || e->data.mapping_start.tag;
	default:
		return false;
	}
}

static enum dlq_code on_event(struct doc_builder *b, const yaml_event_t *e)
{
	int line = (int)e->start_mark.line + 1;
	if (is_marked(e))
		return build_fail(b, line, "anchors (&) and tags (!) are not used here; write the value out");
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		return on_scalar(b, e);
	case YAML_SEQUENCE_START_EVENT:
		return on_open(b, DOC_LIST, e);
	case YAML_MAPPING_START_EVENT:
		return on_open(b, DOC_MAP, e);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		build_close(b);
		return DLQ_OK;
	case YAML_ALIAS_EVENT:
		return build_fail(b, line, "aliases (*) are not used here; write the value out");
	case YAML_DOCUMENT_START_EVENT:
		if (b->root)
			return build_fail(b, line, "a second document starts here; one file holds one document");
		return DLQ_OK;
	default:
		return DLQ_OK;
	}
}

static enum dlq_code syntax_error(struct doc_builder *b, const yaml_parser_t *p)
{
	if (p->error == YAML_MEMORY_ERROR)
		return err_set(b->err, DLQ_NO_MEMORY, "%s: out of memory while reading", b->file);
	/* The reader (bad UTF-8, control characters) knows the place only as a byte. */
	size_t line = p->error == YAML_READER_ERROR ? p->mark.line : p->problem_mark.line;
	return build_fail(b, (int)line + 1, "this is not valid YAML: %s%s%s", p->problem ? p->problem : "unknown fault",
	                  p->context ? " " : "", p->context ? p->context : "");
}

enum dlq_code doc_from_yaml(struct arena *a, struct str text, const char *file, struct doc **out, struct dlq_err *err)
{
	struct doc_builder b = {.arena = a, .file = arena_str(a, str_of(file)).p, .err = err};
	yaml_parser_t parser;
	enum dlq_code code = DLQ_OK;
	bool end = false;
	if (!yaml_parser_initialize(&parser))
		return err_set(err, DLQ_NO_MEMORY, "%s: out of memory while reading", file);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	while (code == DLQ_OK && !end) {
		yaml_event_t e;
		if (!yaml_parser_parse(&parser, &e)) {
			code = syntax_error(&b, &parser);
			break;
		}
		code = on_event(&b, &e);
		end = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&parser);
	if (code == DLQ_OK)
		*out = b.root ? b.root : build_add(&b, DOC_NULL, 1, 1);
	return code;
}
