// Version of the protocol between lorsad and workers.
#ifndef LORSA_BASE_WORKER_PROTOCOL_H_
#define LORSA_BASE_WORKER_PROTOCOL_H_

namespace lorsa {

// Described by proto/lorsa/v1/worker_service.proto. Counts up when an older worker, or an older
// server, could not follow. client/python/lorsa/worker/session.py has the same number.
inline constexpr int kWorkerProtocol = 2;

}  // namespace lorsa

#endif  // LORSA_BASE_WORKER_PROTOCOL_H_
