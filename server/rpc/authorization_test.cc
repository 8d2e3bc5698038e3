#include "server/rpc/authorization.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/job_service.pb.h"
#include "lorsa/v1/metric_service.pb.h"
#include "lorsa/v1/server_config.pb.h"
#include "lorsa/v1/server_info_service.pb.h"
#include "lorsa/v1/webhook.pb.h"
#include "lorsa/v1/worker_service.pb.h"

namespace lorsa::server {
namespace {

// A message of each file that declares a service, so that its descriptors are linked in.
const google::protobuf::Descriptor* const kLinked[] = {
    v1::ActivationSet::descriptor(),    v1::Checkpoint::descriptor(),
    v1::CreateJobRequest::descriptor(), v1::MetricPoint::descriptor(),
    v1::ServerInfo::descriptor(),       v1::WorkerMessage::descriptor(),
    v1::ServerConfig::descriptor(),     v1::JobEndedNotice::descriptor()};

// Every method of every service in the source files of lorsa.v1, by full name.
std::set<std::string> DeclaredMethods() {
  std::set<std::string> methods;
  for (const auto& entry :
       std::filesystem::directory_iterator(LORSA_SOURCE_DIR "/proto/lorsa/v1")) {
    const auto* file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
        "lorsa/v1/" + entry.path().filename().string());
    EXPECT_NE(file, nullptr) << entry.path() << " is not linked: add it to kLinked";
    for (int s = 0; file != nullptr && s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.insert(file->service(s)->method(m)->full_name());
      }
    }
  }
  EXPECT_GE(methods.size(), std::size(kLinked));
  return methods;
}

TEST(MethodRules, NameEveryDeclaredMethodOnceAndNothingElse) {
  std::multiset<std::string> ruled;
  for (const MethodRule& rule : MethodRules()) ruled.insert(std::string(rule.method));
  EXPECT_THAT(ruled, testing::ElementsAreArray(DeclaredMethods()));
}

TEST(MethodRules, OnlyWorkersReachTheWorkerService) {
  for (const MethodRule& rule : MethodRules()) {
    const bool worker_service = rule.method.find("WorkerService") != absl::string_view::npos;
    EXPECT_EQ(rule.access == Access::kWorker, worker_service) << rule.method;
  }
}

}  // namespace
}  // namespace lorsa::server
