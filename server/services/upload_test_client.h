// For tests: the client's half of a call that sends a file.
#ifndef LORSA_SERVER_SERVICES_UPLOAD_TEST_CLIENT_H_
#define LORSA_SERVER_SERVICES_UPLOAD_TEST_CLIENT_H_

#include <grpcpp/support/sync_stream.h>

#include <string>

#include "base/crc32c.h"

namespace lorsa::server {

// Sends `start`, then `data` in pieces; `crc_error`: with a wrong checksum. The status of the call.
template <typename Request, typename Start>
grpc::Status SendFile(grpc::ClientWriter<Request>& writer, const Start& start,
                      const std::string& data, bool crc_error) {
  Request message;
  *message.mutable_start() = start;
  bool open = writer.Write(message);
  constexpr size_t kPiece = 10'000;
  for (size_t at = 0; open && at < data.size(); at += kPiece) {
    message.mutable_data()->set_data(data.substr(at, kPiece));
    message.mutable_data()->set_crc32c(Crc32c(message.data().data()) ^ (crc_error ? 1u : 0u));
    open = writer.Write(message);
  }
  writer.WritesDone();
  return writer.Finish();
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_UPLOAD_TEST_CLIENT_H_
