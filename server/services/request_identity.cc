#include "server/services/request_identity.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/sha256.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxRequestIdBytes = 63;

// The same bytes for the same contents, in whatever order maps were filled.
std::string DeterministicBytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() <= kMaxRequestIdBytes) return absl::OkStatus();
  return InvalidField("request_id",
                      absl::StrCat("is longer than ", kMaxRequestIdBytes, " characters"));
}

RequestIdentity IdentityOf(const google::protobuf::Message& request,
                           const std::string& request_id) {
  return {.id = request_id, .sha256 = Sha256Hex(DeterministicBytes(request))};
}

}  // namespace lorsa::server
