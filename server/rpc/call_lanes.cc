#include "server/rpc/call_lanes.h"

namespace lorsa::server {
namespace {

constexpr int kReadThreads = 4;
constexpr int kWriteThreads = 8;  // The catalog's writer takes what all of them wait with at once.
constexpr int kWorkerThreads = 2;
constexpr int kDataThreads = 4;
constexpr int kFileThreads = 8;  // They mostly wait for the disk.

}  // namespace

LaneThreads::LaneThreads(const Authorizer& authorizer, OpenStreams& streams)
    : reads_(kReadThreads),
      writes_(kWriteThreads),
      workers_(kWorkerThreads),
      data_(kDataThreads),
      files_(kFileThreads),
      lanes_{.reads = {reads_, authorizer, streams},
             .writes = {writes_, authorizer, streams},
             .workers = {workers_, authorizer, streams},
             .data = {data_, authorizer, streams},
             .files = {files_, authorizer, streams}} {}

}  // namespace lorsa::server
