// The server's calls, apart by what their threads may have to wait for, so that none waits behind
// work that it has nothing to do with.
#ifndef LORSA_SERVER_RPC_CALL_LANES_H_
#define LORSA_SERVER_RPC_CALL_LANES_H_

#include "server/rpc/executor.h"

namespace lorsa::server {

struct CallLanes {
  Executor& reads;      // nothing but a read of the catalog
  Executor& writes;     // the catalog's writer, which another process may hold up
  Executor& workers;    // nothing but a read of the catalog, to hear workers
  Executor& data;       // the disk, for a look at it or to take a piece of a file
  Executor& downloads;  // the disk, to read a piece of a file
  Executor& files;      // the disk, for whole files; and the catalog's writer
};

// The threads of all lanes.
class LaneThreads {
 public:
  // std::system_error if the system has too few threads left.
  LaneThreads();

  // Valid as long as this lives.
  const CallLanes& lanes() const { return lanes_; }

 private:
  Executor reads_;
  Executor writes_;
  Executor workers_;
  Executor data_;
  Executor downloads_;
  Executor files_;
  const CallLanes lanes_{reads_, writes_, workers_, data_, downloads_, files_};
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CALL_LANES_H_
