#include "server/model/job_state.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace lorsa::server {
namespace {

constexpr int kFirst = v1::JOB_STATE_QUEUED;
constexpr int kLast = v1::JOB_STATE_CANCELLED;

// Written down a second time, by source state, so that an edge added by accident fails.
const std::map<std::string, std::vector<std::string>>& LegalTargets() {
  static const auto* const targets = new std::map<std::string, std::vector<std::string>>{
      {"QUEUED", {"STARTING", "CANCELLED", "FAILED"}},
      {"STARTING", {"QUEUED", "RUNNING", "RECOVERING", "CANCELLING", "FAILED"}},
      {"RUNNING", {"QUEUED", "PAUSING", "RECOVERING", "CANCELLING", "SUCCEEDED", "FAILED"}},
      {"PAUSING", {"PAUSED", "CANCELLING", "SUCCEEDED", "FAILED"}},
      {"PAUSED", {"QUEUED", "CANCELLED", "FAILED"}},
      {"RECOVERING", {"STARTING", "CANCELLED", "FAILED"}},
      {"CANCELLING", {"SUCCEEDED", "FAILED", "CANCELLED"}},
      {"SUCCEEDED", {}},
      {"FAILED", {"QUEUED"}},
      {"CANCELLED", {}},
  };
  return *targets;
}

TEST(JobStateTest, EveryPairOfStatesIsLegalOrIllegalAsWrittenDown) {
  for (int from = kFirst; from <= kLast; ++from) {
    for (int to = kFirst; to <= kLast; ++to) {
      const auto from_state = static_cast<v1::JobState>(from);
      const auto to_state = static_cast<v1::JobState>(to);
      const std::string from_name(JobStateName(from_state));
      const std::string to_name(JobStateName(to_state));
      const auto& targets = LegalTargets().at(from_name);
      const bool legal = std::find(targets.begin(), targets.end(), to_name) != targets.end();
      EXPECT_EQ(IsLegalEdge(from_state, to_state), legal) << from_name << " -> " << to_name;
    }
  }
}

TEST(JobStateTest, NoEdgeLeadsToOrFromUnspecified) {
  for (int state = kFirst; state <= kLast; ++state) {
    EXPECT_FALSE(IsLegalEdge(v1::JOB_STATE_UNSPECIFIED, static_cast<v1::JobState>(state)));
    EXPECT_FALSE(IsLegalEdge(static_cast<v1::JobState>(state), v1::JOB_STATE_UNSPECIFIED));
  }
}

TEST(JobStateTest, FinalStatesAreThoseWithoutAnEdgeOutButForARetry) {
  for (int from = kFirst; from <= kLast; ++from) {
    const auto state = static_cast<v1::JobState>(from);
    const auto& targets = LegalTargets().at(std::string(JobStateName(state)));
    EXPECT_EQ(IsFinal(state), targets.empty() || state == v1::JOB_STATE_FAILED);
  }
}

TEST(JobStateTest, EveryStateReachesAFinalOne) {
  for (int from = kFirst; from <= kLast; ++from) {
    std::vector<bool> reached(kLast + 1, false);
    reached[from] = true;
    for (int round = 0; round <= kLast; ++round) {
      for (const JobEdge& edge : kJobEdges) {
        if (reached[edge.from]) reached[edge.to] = true;
      }
    }
    EXPECT_TRUE(reached[v1::JOB_STATE_CANCELLED] || IsFinal(static_cast<v1::JobState>(from)))
        << JobStateName(static_cast<v1::JobState>(from));
  }
}

}  // namespace
}  // namespace lorsa::server
