#include "server/rpc/call_lanes.h"

namespace lorsa::server {
namespace {

constexpr int kReadThreads = 4;
constexpr int kWriteThreads = 8;  // The catalog's writer takes what all of them wait with at once.
constexpr int kWorkerThreads = 2;
constexpr int kDataThreads = 4;
constexpr int kFileThreads = 8;  // They mostly wait for the disk.

}  // namespace

LaneThreads::LaneThreads(const Authorizer& authorizer)
    : reads_(kReadThreads),
      writes_(kWriteThreads),
      workers_(kWorkerThreads),
      data_(kDataThreads),
      files_(kFileThreads),
      lanes_{.reads = {reads_, authorizer},
             .writes = {writes_, authorizer},
             .workers = {workers_, authorizer},
             .data = {data_, authorizer},
             .files = {files_, authorizer}} {}

}  // namespace lorsa::server
