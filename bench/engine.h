/* The load engine: one thread, one epoll, a closed loop per connection. */
#ifndef DLQ_BENCH_ENGINE_H
#define DLQ_BENCH_ENGINE_H

#include "driver.h"
#include "hist.h"

enum { ERROR_KINDS = 16 };

struct error_count {
	char label[24];
	uint64_t count;
};

struct figures {
	double elapsed;          /* seconds measured, warm-up left out */
	uint64_t messages;       /* through all steps, within the time measured */
	uint64_t requests;       /* replies, within the time measured */
	struct hist latency;     /* ns, one sample per batch answered without an error */
	struct error_count errors[ERROR_KINDS];
	uint64_t errors_total;
	uint64_t unanswered;     /* batches with no full answer DRAIN_SECONDS after the end */
	uint64_t longest_gap_ns; /* no good reply on any connection for so long */
	double connect_seconds;  /* until all connections stood */
	double cpu_seconds;      /* of this process, within the time measured */
};

/* Runs the workload to its end. Dies when the connections cannot be made or all are lost. */
void engine_run(const struct options *o, const struct driver *d, struct figures *f);

#endif
