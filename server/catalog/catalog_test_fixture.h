// A catalog in a folder of its own, for the tests of what it stores.
#ifndef LORSA_SERVER_CATALOG_CATALOG_TEST_FIXTURE_H_
#define LORSA_SERVER_CATALOG_CATALOG_TEST_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

inline const absl::Time kStart = absl::UnixEpoch() + absl::Hours(500'000);

inline NewJob Named(const std::string& id, const std::string& request_id = "") {
  NewJob job;
  job.id = id;
  job.spec.mutable_training()->set_top_k(64);
  job.resolved_spec = job.spec;
  job.resolved_spec.mutable_training()->set_seed(7);
  job.request = {.id = request_id, .sha256 = "sha256 of " + id};
  return job;
}

inline absl::Status AnyCheckpoint(const JobRecord&, const v1::Checkpoint&) {
  return absl::OkStatus();
}

inline JobDecision To(v1::JobState state) {
  return [state](const JobRecord&) -> absl::StatusOr<JobChange> {
    return JobChange{.state = state, .reason = "TEST"};
  };
}

inline v1::MetricPoint Point(int64_t step, double loss,
                             v1::MetricKind kind = v1::METRIC_KIND_TRAINING) {
  v1::MetricPoint point;
  point.set_kind(kind);
  point.set_step(step);
  point.set_tokens(step * 2048);
  point.mutable_time()->set_seconds(1'800'000'000 + step);
  (*point.mutable_values())["loss"] = loss;
  return point;
}

inline v1::Checkpoint CheckpointAt(int64_t step, std::optional<double> fvu = std::nullopt) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  checkpoint.set_tokens(step * 2048);
  checkpoint.add_files()->set_name("config.json");
  if (fvu.has_value()) checkpoint.set_fvu(*fvu);
  return checkpoint;
}

class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest() {
    std::string folder = ::testing::TempDir() + "catalog_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    Reopen();
  }
  ~CatalogTest() override {
    catalog_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Path() const { return folder_ + "/catalog.sqlite"; }

  void Reopen() {
    catalog_.reset();
    auto catalog = Catalog::Open(Path());
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    catalog_ = *std::move(catalog);
  }

  JobRecord Create(const std::string& id) { return catalog_->CreateJob(Named(id), kStart).value(); }

  // A job in its attempt number 1, RUNNING.
  AttemptKey Running(const std::string& id) {
    Create(id);
    return Launch(id);
  }
  AttemptKey Launch(const std::string& id) {
    const auto starting = catalog_->UpdateJob(id, kStart, [&](const JobRecord& job) {
      return absl::StatusOr<JobChange>(JobChange{
          .state = v1::JOB_STATE_STARTING,
          .new_attempt_token_sha256 = absl::StrCat(id, "-token-", job.job.attempt() + 1)});
    });
    EXPECT_TRUE(starting.ok()) << starting.status();
    EXPECT_TRUE(catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_RUNNING)).ok());
    return {id, starting->job.attempt()};
  }
  // The same job in its next attempt.
  AttemptKey Recovered(const std::string& id) {
    EXPECT_TRUE(catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_RECOVERING)).ok());
    return Launch(id);
  }

  std::vector<int64_t> Steps(const std::string& id) {
    std::vector<int64_t> steps;
    const auto checkpoints = catalog_->ListCheckpoints(id).value();
    for (const auto& checkpoint : checkpoints) {
      steps.push_back(checkpoint.step());
    }
    return steps;
  }

  std::string folder_;
  std::unique_ptr<Catalog> catalog_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_CATALOG_TEST_FIXTURE_H_
