#include "cli/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "cli/cli.h"

#define REPLY_MAX ((size_t)128 << 20)
#define HEADERS_MAX 65536

struct client {
	CURL *easy;
	char *url, *token;
};

const char *client_url(const struct client *cl)
{
	return cl->url;
}

struct client *client_new(const char *url, const char *token)
{
	struct client *cl = mem_alloc(sizeof(*cl));
	struct str u = str_of(url);

	curl_global_init(CURL_GLOBAL_DEFAULT);
	while (u.n && u.p[u.n - 1] == '/')
		u.n--;
	cl->url = mem_strdup(u);
	cl->token = mem_strdup(str_of(token));
	cl->easy = curl_easy_init();
	ASSERT(cl->easy);
	return cl;
}

struct client *client_clone(const struct client *cl)
{
	return client_new(cl->url, cl->token);
}

void client_free(struct client *cl)
{
	if (!cl)
		return;
	curl_easy_cleanup(cl->easy);
	mem_free(cl->url);
	mem_free(cl->token);
	mem_free(cl);
}

/* The first line of DIR/name, or NULL; the caller frees it. */
static char *data_file(const char *dir, const char *name)
{
	struct buf text = {.max = 65536};
	struct dlq_err err = {0};
	char path[4096], *line = NULL;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!cli_read_file(path, &text, &err) && text.n)
		line = mem_strdup(str_trim(buf_str(&text)));
	buf_release(&text);
	return line;
}

struct client *client_open(const struct cli *c, int *rc)
{
	const char *dir = cli_opt(c, "data"), *url = cli_opt(c, "url"), *token = getenv("DLQ_TOKEN");
	char *found_url = NULL, *found_token = NULL;
	struct client *cl = NULL;

	*rc = 0;
	if (!dir)
		dir = getenv("DLQ_DATA");
	if (!dir || !*dir)
		dir = "dlq-data";
	if (!url && !cli_opt(c, "data")) /* a folder named on the command line wins over the environment */
		url = getenv("DLQ_URL");
	if (!url || !*url)
		url = found_url = data_file(dir, "server.url");
	if (!url)
		url = "http://127.0.0.1:7357";
	if (!token || !*token || cli_opt(c, "data"))
		found_token = data_file(dir, "admin.token");
	if (found_token)
		token = found_token;
	if (token && *token) {
		cl = client_new(url, token);
	} else {
		struct dlq_err err = {0};

		err_set(&err, DLQ_UNAUTHENTICATED,
			"no token: set DLQ_TOKEN, or name the data folder of a local server with --data "
			"(there is no %s/admin.token that can be read)",
			dir);
		*rc = cli_fail(&err);
	}
	mem_free(found_url);
	mem_free(found_token);
	return cl;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct buf *b = arg;

	buf_add(b, p, size * n);
	return b->overflow ? 0 : size * n;
}

static bool is_loopback(const char *url)
{
	const char *host = strstr(url, "://");

	host = host ? host + 3 : url;
	return !strncmp(host, "127.", 4) || !strncmp(host, "localhost", 9) || !strncmp(host, "[::1]", 5);
}

static struct curl_slist *request_headers(struct client *cl, const struct client_call *call)
{
	struct curl_slist *list = NULL;
	struct buf line = {0};
	bool typed = false;

	buf_addf(&line, "Authorization: Bearer %s", cl->token);
	buf_addc(&line, 0);
	list = curl_slist_append(list, line.p);
	for (int i = 0; i < call->n_headers; i++) {
		list = curl_slist_append(list, call->headers[i]);
		typed = typed || !strncasecmp(call->headers[i], "content-type:", 13);
	}
	if (!typed) {
		buf_clear(&line);
		buf_addf(&line, "Content-Type:%s%s", call->content_type ? " " : "",
			 call->content_type ? call->content_type : "");
		buf_addc(&line, 0);
		list = curl_slist_append(list, line.p);
	}
	buf_release(&line);
	return curl_slist_append(list, "Expect:");
}

static enum dlq_code code_of(const char *name, int status)
{
	for (int i = 1; i < DLQ_CODE_COUNT; i++)
		if (!strcmp(name, code_name((enum dlq_code)i)))
			return (enum dlq_code)i;
	for (int i = 1; i < DLQ_CODE_COUNT; i++)
		if (code_http((enum dlq_code)i) == status)
			return (enum dlq_code)i;
	return status >= 500 ? DLQ_INTERNAL : DLQ_BAD_REQUEST;
}

static enum dlq_code problem(struct client *cl, const struct client_call *call, struct dlq_err *err)
{
	const char *detail = jstr(call->json, "detail"), *code = jstr(call->json, "code");

	if (!*code && !call->json)
		return err_set(err, code_of("", call->status),
			       "%s answered %d to %s %s without a problem document; is it a dlq server?", cl->url,
			       call->status, call->method, call->path);
	return err_set(err, code_of(code, call->status), "%s", *detail ? detail : jstr(call->json, "title"));
}

static enum dlq_code network_error(struct client *cl, CURLcode rc, const char *text, struct dlq_err *err)
{
	if (rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_HOST)
		return err_set(
			err, DLQ_UNREACHABLE,
			"no server answers at %s; start one with `dlq serve`, or name one with --url or DLQ_URL (%s)",
			cl->url, *text ? text : curl_easy_strerror(rc));
	if (rc == CURLE_URL_MALFORMAT || rc == CURLE_UNSUPPORTED_PROTOCOL)
		return err_set(err, DLQ_BAD_REQUEST, "%s is no server address; one looks like http://127.0.0.1:7357",
			       cl->url);
	if (rc == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, DLQ_TIMEOUT, "%s did not answer in time", cl->url);
	if (rc == CURLE_WRITE_ERROR)
		return err_set(err, DLQ_TOO_LARGE, "the answer of %s is larger than %zu bytes", cl->url, REPLY_MAX);
	return err_set(err, DLQ_UNREACHABLE, "talking to %s: %s", cl->url, *text ? text : curl_easy_strerror(rc));
}

enum dlq_code client_call(struct client *cl, struct client_call *call, struct dlq_err *err)
{
	CURL *easy = cl->easy;
	struct curl_slist *headers = request_headers(cl, call);
	char text[CURL_ERROR_SIZE] = "";
	struct buf url = {0};
	const char *ca = getenv("DLQ_CACERT"), *type = NULL;
	long status = 0;

	buf_addf(&url, "%s%s", cl->url, call->path);
	buf_addc(&url, 0);
	call->reply.max = REPLY_MAX;
	call->reply_headers.max = HEADERS_MAX;
	curl_easy_reset(easy); /* keeps the connection */
	curl_easy_setopt(easy, CURLOPT_URL, url.p);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* a queue "..": the server says what is wrong with it */
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, text);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(call->timeout_ms ? call->timeout_ms : 30000));
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &call->reply);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, &call->reply_headers);
	if (call->body.n || !strcmp(call->method, "POST") || !strcmp(call->method, "PUT")) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body.n ? call->body.p : "");
	}
	if (is_loopback(cl->url))
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	if (ca && *ca)
		curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
	CURLcode rc = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
	call->status = (int)status;
	if (!rc && type && strstr(type, "json"))
		call->json = json_loadb(call->reply.p ? call->reply.p : "", call->reply.n,
					JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	curl_slist_free_all(headers);
	buf_release(&url);
	if (rc)
		return network_error(cl, rc, text, err);
	if (status < 200 || status > 299)
		return problem(cl, call, err);
	return DLQ_OK;
}

void client_call_clear(struct client_call *call)
{
	buf_release(&call->reply);
	buf_release(&call->reply_headers);
	json_decref(call->json);
	call->json = NULL;
}

struct str client_header(const struct client_call *call, const char *name)
{
	struct str rest = buf_str(&call->reply_headers);
	size_t n = strlen(name);

	while (rest.n) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct str line = {rest.p, end ? (size_t)(end - rest.p) + 1 : rest.n};

		if (line.n > n && line.p[n] == ':' && !strncasecmp(line.p, name, n))
			return str_trim((struct str){line.p + n + 1, line.n - n - 1});
		rest.p += line.n;
		rest.n -= line.n;
	}
	return (struct str){"", 0};
}

json_t *client_json(struct client *cl, const char *method, const char *path, json_t *body, struct dlq_err *err)
{
	char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	struct client_call call = {
		.method = method,
		.path = path,
		.body = str_of(text),
		.content_type = text ? "application/json" : NULL,
		.timeout_ms = 90000,
	};
	json_t *answer = NULL;

	json_decref(body);
	if (!client_call(cl, &call, err)) {
		answer = json_incref(call.json);
		if (!answer && call.status == 204)
			answer = json_object();
		else if (!answer)
			err_set(err, DLQ_BAD_REQUEST, "%s answered %s without JSON; is it a dlq server?", cl->url,
				path);
	}
	free(text);
	client_call_clear(&call);
	return answer;
}

json_t *client_get(struct client *cl, struct dlq_err *err, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || n >= (int)sizeof(text)) {
		err_set(err, DLQ_BAD_REQUEST, "the arguments are too long");
		return NULL;
	}
	return client_json(cl, "GET", text, NULL, err);
}

void url_escape(struct buf *out, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
		    strchr("-._~", *p))
			buf_addc(out, (char)*p);
		else
			buf_addf(out, "%%%02X", *p);
	}
}

void url_query(struct buf *out, const char *key, const char *value)
{
	if (!value)
		return;
	buf_addc(out, out->n && memchr(out->p, '?', out->n) ? '&' : '?');
	buf_addf(out, "%s=", key);
	url_escape(out, value);
}

const char *jstr(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

int64_t jint(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

void json_line(const json_t *v)
{
	json_dumpf(v, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
	putchar('\n');
}
