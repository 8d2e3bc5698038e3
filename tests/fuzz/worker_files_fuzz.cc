// The files between lorsad and a worker: outcome.textproto, which a worker leaves, and
// bootstrap.textproto, which it is started with. What is accepted is printed and read the same.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include "job_spec/textproto.h"
#include "lorsa/v1/worker_service.pb.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

namespace {

template <typename Message>
void FuzzText(const std::string& text) {
  Message message;
  const absl::Status status = ParseTextproto("input", text, message);
  if (!status.ok()) return FUZZ_CHECK(absl::IsInvalidArgument(status));
  std::string printed;
  FUZZ_CHECK(google::protobuf::TextFormat::PrintToString(message, &printed));
  Message again;
  FUZZ_CHECK(ParseTextproto("printed", printed, again).ok());
  FUZZ_CHECK(google::protobuf::util::MessageDifferencer::Equals(message, again));
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(fuzz::AsText(data, size));
  FuzzText<v1::WorkerOutcome>(text);
  FuzzText<v1::WorkerBootstrap>(text);
  return 0;
}
