#include "lib_web.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct upload {
	struct buf body;
	char *path;
};

const char *web_header(const struct web_request *q, const char *name)
{
	return MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result reply_send(struct MHD_Connection *c, const struct web_reply *r)
{
	size_t n = r->body_len ? r->body_len : r->body ? strlen(r->body) : 0;
	struct MHD_Response *out = MHD_create_response_from_buffer(n, (void *)(r->body ? r->body : ""), MHD_RESPMEM_MUST_COPY);
	enum MHD_Result rc;

	for (size_t i = 0; i < ARRAY_LEN(r->headers) && r->headers[i]; i++) {
		const char *colon = strchr(r->headers[i], ':');
		char name[64] = "";

		memcpy(name, r->headers[i], (size_t)(colon - r->headers[i]));
		MHD_add_response_header(out, name, colon + 1 + strspn(colon + 1, " "));
	}
	rc = MHD_queue_response(c, (unsigned)(r->status ? r->status : 200), out);
	MHD_destroy_response(out);
	return rc;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *data, size_t *n, void **state)
{
	struct web *w = cls;
	struct upload *u = *state;
	struct web_reply r = {0};
	struct web_request q = {.path = path, .connection = c};

	(void)method;
	(void)version;
	if (!u) {
		*state = mem_alloc(sizeof(*u));
		return MHD_YES;
	}
	if (*n > 0) {
		buf_add(&u->body, data, *n);
		*n = 0;
		return MHD_YES;
	}
	q.body = buf_str(&u->body);
	w->answer(w, &q, &r);
	return reply_send(c, &r);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode toe)
{
	struct upload *u = *state;

	(void)cls;
	(void)c;
	(void)toe;
	if (u)
		buf_release(&u->body);
	mem_free(u);
}

void web_start(struct web *w)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	w->daemon = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL,
				     NULL, on_request, w, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
				     NULL, MHD_OPTION_END);
	ASSERT(w->daemon);
	w->port = MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
	snprintf(w->url, sizeof(w->url), "http://127.0.0.1:%d", w->port);
}

void web_stop(struct web *w)
{
	MHD_stop_daemon(w->daemon);
}

static int listen_any(int *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	ASSERT(getsockname(fd, (struct sockaddr *)&at, &n) == 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static void raw_serve(struct raw *r, int c)
{
	struct linger linger = {.l_onoff = 1};
	char head[65536];
	size_t n = 0, left = r->n ? r->n : r->bytes ? strlen(r->bytes) : 0;
	const char *p = r->bytes;

	while (n < sizeof(head) && !memmem(head, n, "\r\n\r\n", 4)) {
		ssize_t got = read(c, head + n, sizeof(head) - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	while (left > 0) {
		ssize_t sent = send(c, p, left, MSG_NOSIGNAL);

		if (sent <= 0)
			break;
		p += sent;
		left -= (size_t)sent;
	}
	if (r->hold && r->n_held < (int)ARRAY_LEN(r->held)) {
		r->held[r->n_held++] = c;
		return;
	}
	if (r->reset)
		setsockopt(c, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	else
		shutdown(c, SHUT_WR);
	close(c);
}

static void *raw_main(void *arg)
{
	struct raw *r = arg;
	int c;

	while ((c = accept(r->fd, NULL, NULL)) >= 0) {
		r->connections++;
		raw_serve(r, c);
	}
	return NULL;
}

void raw_start(struct raw *r)
{
	pthread_t t;

	r->fd = listen_any(&r->port);
	ASSERT(listen(r->fd, 64) == 0);
	snprintf(r->url, sizeof(r->url), "http://127.0.0.1:%d", r->port);
	ASSERT(pthread_create(&t, NULL, raw_main, r) == 0);
	r->thread = t;
}

void raw_stop(struct raw *r)
{
	shutdown(r->fd, SHUT_RDWR); /* ends accept */
	pthread_join(r->thread, NULL);
	for (int i = 0; i < r->n_held; i++)
		close(r->held[i]);
	close(r->fd);
}

int closed_port(void)
{
	int port, fd = listen_any(&port);

	close(fd);
	return port;
}
