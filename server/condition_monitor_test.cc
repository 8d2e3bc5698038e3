#include "server/condition_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "absl/time/clock.h"
#include "base/scratch_folder.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {
namespace {

class RecordedHealth final : public grpc::HealthCheckServiceInterface {
 public:
  void SetServingStatus(const std::string& service, bool serving) override {
    serving_[service] = serving;
  }
  void SetServingStatus(bool) override {}
  void Shutdown() override {}
  bool Serving(const std::string& service) const { return serving_.at(service); }

 private:
  std::map<std::string, bool> serving_;
};

class ConditionMonitorTest : public ::testing::Test {
 protected:
  MonitorEnvironment Environment(int64_t reserve = 0) {
    return {.catalog = *catalog_,
            .fs = fs_,
            .conditions = conditions_,
            .health = health_,
            .data_folder = folder_.path(),
            .disk_reserve_bytes = reserve};
  }
  std::string CatalogFile() const { return folder_.Path("catalog.sqlite"); }

  ScratchFolder folder_;
  PosixFileSystem fs_;
  std::unique_ptr<Catalog> catalog_ = Catalog::Open(CatalogFile()).value();
  ServerConditions conditions_{absl::Now};
  RecordedHealth health_;
};

TEST_F(ConditionMonitorTest, NothingWrongIsServing) {
  LookOnce(Environment());
  EXPECT_TRUE(conditions_.All().empty());
  for (const char* service : {"", "lorsa.v1.JobService", "lorsa.v1.MetricService",
                              "lorsa.v1.WorkerService", kStoredDataHealth}) {
    EXPECT_TRUE(health_.Serving(service)) << service;
  }
}

TEST_F(ConditionMonitorTest, AFullDiskStopsWhatWouldStartJobsAndNoReading) {
  LookOnce(Environment(/*reserve=*/int64_t{1} << 60));
  EXPECT_TRUE(conditions_.Holds(kDiskReserve));
  EXPECT_FALSE(health_.Serving(""));
  EXPECT_FALSE(health_.Serving("lorsa.v1.JobService"));
  EXPECT_TRUE(health_.Serving("lorsa.v1.CheckpointService"));
  EXPECT_TRUE(health_.Serving("lorsa.v1.ActivationService"));
  LookOnce(Environment());
  EXPECT_FALSE(conditions_.Holds(kDiskReserve));
  EXPECT_TRUE(health_.Serving(""));
}

TEST_F(ConditionMonitorTest, RecoveringAndDrainingStopEverything) {
  for (const char* reason : {kRecovering, kDraining}) {
    conditions_.Set(reason, "not now");
    LookOnce(Environment());
    EXPECT_FALSE(health_.Serving("")) << reason;
    EXPECT_FALSE(health_.Serving("lorsa.v1.MetricService")) << reason;
    conditions_.Set(reason, "");
  }
}

TEST_F(ConditionMonitorTest, AnUnreadableCatalogIsTold) {
  LookOnce(Environment());
  EXPECT_FALSE(conditions_.Holds(kCatalogUnreadable));
  for (const char* suffix : {"", "-wal"}) std::filesystem::resize_file(CatalogFile() + suffix, 0);
  LookOnce(Environment());
  EXPECT_TRUE(conditions_.Holds(kCatalogUnreadable));
  EXPECT_FALSE(health_.Serving("lorsa.v1.JobService"));
}

TEST_F(ConditionMonitorTest, DamageIsToldUnderAName) {
  v1::ActivationSet set;
  set.set_name("activationSets/damaged");
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  const auto set_state = [&](v1::ActivationSetState state) {
    return catalog_
        ->UpdateActivationSet("damaged",
                              [=](v1::ActivationSet& stored) {
                                stored.set_state(state);
                                return absl::OkStatus();
                              })
        .status();
  };
  ASSERT_TRUE(set_state(v1::ACTIVATION_SET_STATE_QUARANTINED).ok());
  LookOnce(Environment());
  EXPECT_THAT(conditions_.Message(kDamagedData), testing::HasSubstr("activationSets/damaged"));
  EXPECT_TRUE(health_.Serving(""));
  EXPECT_FALSE(health_.Serving(kStoredDataHealth));
  ASSERT_TRUE(set_state(v1::ACTIVATION_SET_STATE_READY).ok());
  LookOnce(Environment());
  EXPECT_TRUE(health_.Serving(kStoredDataHealth));
}

// The alarm went quiet when the rows behind it could not be read.
TEST_F(ConditionMonitorTest, DamageStandsWhileItCannotBeRead) {
  v1::ActivationSet set;
  set.set_name("activationSets/damaged");
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  const auto quarantine = [](v1::ActivationSet& stored) {
    stored.set_state(v1::ACTIVATION_SET_STATE_QUARANTINED);
    return absl::OkStatus();
  };
  ASSERT_TRUE(catalog_->UpdateActivationSet("damaged", quarantine).ok());
  LookOnce(Environment());
  ASSERT_TRUE(conditions_.Holds(kDamagedData));
  auto connection = Connection::OpenExisting(CatalogFile()).value();
  ASSERT_TRUE(connection->Execute("UPDATE activation_sets SET activation_set = x'ff'").ok());
  ASSERT_FALSE(catalog_->QuarantinedSets().ok());
  LookOnce(Environment());
  EXPECT_TRUE(conditions_.Holds(kDamagedData));
}

TEST_F(ConditionMonitorTest, LooksByItself) {
  const ConditionMonitor monitor(Environment(/*reserve=*/int64_t{1} << 60));
  for (int i = 0; i < 1000 && !conditions_.Holds(kDiskReserve); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(conditions_.Holds(kDiskReserve));
}

}  // namespace
}  // namespace lorsa::server
