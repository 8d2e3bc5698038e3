#include "server/rpc/call_lanes.h"

namespace lorsa::server {
namespace {

constexpr int kReadThreads = 4;
constexpr int kWriteThreads = 8;  // The catalog's writer takes what all of them wait with at once.
constexpr int kWorkerThreads = 2;
constexpr int kDataThreads = 4;
constexpr int kDownloadThreads = 8;  // They wait for the disk while its cache has not what is read.
constexpr int kFileThreads = 8;      // They mostly wait for the disk.

}  // namespace

LaneThreads::LaneThreads()
    : reads_(kReadThreads),
      writes_(kWriteThreads),
      workers_(kWorkerThreads),
      data_(kDataThreads),
      downloads_(kDownloadThreads),
      files_(kFileThreads) {}

}  // namespace lorsa::server
