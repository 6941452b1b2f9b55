/* clients.h - the engine's own clients. */
#ifndef ENGINE_CLIENTS_H
#define ENGINE_CLIENTS_H

#include "engine/notify.h"
#include "engine/push.h"

#endif
