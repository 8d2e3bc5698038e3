// For tests.
#ifndef LORSA_SERVER_RPC_LANES_TESTING_H_
#define LORSA_SERVER_RPC_LANES_TESTING_H_

#include "server/rpc/call_lanes.h"

namespace lorsa::server {

// All calls on the same threads.
inline CallLanes OneLane(Executor& executor) {
  return {executor, executor, executor, executor, executor, executor};
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_LANES_TESTING_H_
