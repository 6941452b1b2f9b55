#include "engine/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void ring(struct mailbox *m)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(m->event, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
	ASSERT(n == (ssize_t)sizeof(one) || errno == EAGAIN); /* full: it is rung already */
}

static void on_post(struct op_port *port, struct engine_op *list)
{
	struct mailbox *m = (struct mailbox *)port;
	struct engine_op *last = list;
	bool first;

	while (last->next)
		last = last->next;
	pthread_mutex_lock(&m->lock);
	if (m->tail)
		m->tail->next = list;
	else
		m->head = list;
	m->tail = last;
	first = !m->woken;
	m->woken = true;
	/* Rung under the lock: afterwards the owner may already have freed the mailbox. */
	if (first)
		ring(m);
	pthread_mutex_unlock(&m->lock);
}

enum dlq_code mailbox_init(struct mailbox *m, struct dlq_err *err)
{
	*m = (struct mailbox){.port.post = on_post};
	m->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->event < 0)
		return err_set(err, DLQ_SYSTEM, "eventfd: %s", strerror(errno));
	pthread_mutex_init(&m->lock, NULL);
	return DLQ_OK;
}

void mailbox_release(struct mailbox *m)
{
	ASSERT(!m->head);
	pthread_mutex_lock(&m->lock); /* whoever rang last is out */
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_destroy(&m->lock);
	close(m->event);
}

void mailbox_wake(struct mailbox *m)
{
	pthread_mutex_lock(&m->lock);
	if (!m->woken) {
		m->woken = true;
		ring(m);
	}
	pthread_mutex_unlock(&m->lock);
}

struct engine_op *mailbox_wait(struct mailbox *m, int64_t ms)
{
	struct pollfd p = {.fd = m->event, .events = POLLIN};
	struct engine_op *list;
	uint64_t count;

	(void)!poll(&p, 1, ms < 0 ? -1 : ms > 60000 ? 60000 : (int)ms);
	pthread_mutex_lock(&m->lock);
	if (m->woken)
		(void)!read(m->event, &count, sizeof(count));
	m->woken = false;
	list = m->head;
	m->head = m->tail = NULL;
	pthread_mutex_unlock(&m->lock);
	return list;
}
