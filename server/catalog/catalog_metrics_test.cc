#include <thread>

#include "absl/time/clock.h"
#include "server/catalog/catalog_test_fixture.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CatalogTest, NewerAttemptsPointStandsInTheOldersPlace) {
  const AttemptKey first = Running("demo");
  ASSERT_TRUE(catalog_->PutMetrics(first, 1, {Point(1, 0.5), Point(2, 0.4)}).ok());
  const AttemptKey second = Recovered("demo");
  ASSERT_TRUE(catalog_->PutMetrics(second, 1, {Point(2, 0.3)}).ok());
  const auto points =
      catalog_->QueryMetrics("demo", {.kind = v1::METRIC_KIND_TRAINING}).value().points;
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[1].attempt(), 2);
  EXPECT_EQ(points[1].values().at("loss"), 0.3);
  EXPECT_EQ(points[1].tokens(), 4096);
  EXPECT_EQ(points[1].time().seconds(), 1'800'000'002);
  // A reader that had seen all of the first attempt meets the replaced point again.
  const auto fresh = catalog_->MetricsAfter("demo", 2, {}, 10).value().points;
  ASSERT_THAT(fresh, SizeIs(1));
  EXPECT_EQ(fresh[0].step(), 2);
}

// A batch that was committed between the reading of training points and that of evaluations gave a
// reader its evaluation, and the reader went on after it: the training point was never seen.
TEST_F(CatalogTest, AReaderThatFollowsSkipsNoPoint) {
  constexpr int kBatches = 400;
  const AttemptKey attempt = Running("demo");
  std::thread writer([&] {
    for (int step = 1; step <= kBatches; ++step) {
      const std::vector<v1::MetricPoint> batch = {Point(step, 0.5),
                                                  Point(step, 0.5, v1::METRIC_KIND_EVALUATION)};
      ASSERT_TRUE(catalog_->PutMetrics(attempt, step, batch).ok());
    }
  });
  int64_t last = 0;
  int64_t skipped = 0;
  while (last + skipped < 2 * kBatches) {
    const auto points = catalog_->MetricsAfter("demo", last, {}, 256).value().points;
    for (const v1::MetricPoint& point : points) {
      skipped += point.sequence() - last - 1;
      last = point.sequence();
    }
    if (skipped > 0) break;
  }
  writer.join();
  EXPECT_EQ(skipped, 0) << "after sequence " << last;
}

TEST_F(CatalogTest, MetricsComeWithTheStateOfTheirMoment) {
  const AttemptKey attempt = Running("demo");
  EXPECT_EQ(catalog_->MetricsAfter("demo", 0, {}, 10)->state, v1::JOB_STATE_RUNNING);
  ASSERT_TRUE(catalog_->UpdateJob("demo", kStart, To(v1::JOB_STATE_SUCCEEDED)).ok());
  EXPECT_EQ(catalog_->MetricsAfter("demo", 0, {}, 10)->state, v1::JOB_STATE_SUCCEEDED);
}

// 10,000 points of 64 values are tens of megabytes; clients take 4 MiB a message.
TEST_F(CatalogTest, RangesAreBoundedInBytes) {
  const AttemptKey attempt = Running("demo");
  std::vector<v1::MetricPoint> points;
  for (int step = 1; step <= 200; ++step) {
    v1::MetricPoint& point = points.emplace_back(Point(step, 0.5));
    for (int i = 0; i < 50; ++i) (*point.mutable_values())[absl::StrCat("value_of_", i)] = i;
  }
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, points).ok());
  const auto bytes_of = [](const MetricsInRange& range) {
    size_t bytes = 0;
    for (const v1::MetricPoint& point : range.points) bytes += point.ByteSizeLong();
    return bytes;
  };
  MetricRange range{.kind = v1::METRIC_KIND_TRAINING, .limit = 1000, .max_bytes = 32 << 10};
  std::vector<int64_t> steps;
  for (std::optional<int64_t> next = 0; next.has_value();) {
    range.start_step = *next;
    const MetricsInRange page = catalog_->QueryMetrics("demo", range).value();
    EXPECT_LE(bytes_of(page), range.max_bytes);
    ASSERT_FALSE(page.points.empty());
    for (const v1::MetricPoint& point : page.points) steps.push_back(point.step());
    next = page.next_step;
  }
  EXPECT_THAT(steps, SizeIs(200)) << "the pages together have every point, once";

  range.start_step = 0;
  range.thinned = true;
  const MetricsInRange thinned = catalog_->QueryMetrics("demo", range).value();
  EXPECT_LE(bytes_of(thinned), range.max_bytes);
  EXPECT_GT(thinned.points.size(), 10);
  EXPECT_EQ(thinned.points.front().step(), 1);
  EXPECT_EQ(thinned.points.back().step(), 200);

  range.names = {"loss"};
  EXPECT_THAT(catalog_->QueryMetrics("demo", range)->points, SizeIs(200))
      << "values that nobody asked for do not count";
  range.max_bytes = 1;
  EXPECT_THAT(catalog_->QueryMetrics("demo", range)->points, SizeIs(2));
  range.thinned = false;
  EXPECT_THAT(catalog_->QueryMetrics("demo", range)->points, SizeIs(1));
}

TEST_F(CatalogTest, BatchSentAgainIsDropped) {
  const AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, {Point(1, 0.5)}).ok());
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, {Point(1, 0.5)}).ok());
  const auto points = catalog_->MetricsAfter("demo", 0, {}, 10).value().points;
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].sequence(), 1);
}

TEST_F(CatalogTest, MetricsAreFilteredByKindAndRange) {
  const AttemptKey attempt = Running("demo");
  std::vector<v1::MetricPoint> points = {Point(0, 0.9, v1::METRIC_KIND_EVALUATION)};
  for (int step = 1; step <= 5; ++step) points.push_back(Point(step, 1.0 / step));
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, points).ok());
  EXPECT_THAT(
      catalog_->MetricsAfter("demo", 0, {.kind = v1::METRIC_KIND_EVALUATION}, 10).value().points,
      SizeIs(1));
  EXPECT_THAT(catalog_->MetricsAfter("demo", 4, {}, 10).value().points, SizeIs(2));
  std::vector<int64_t> every_second;
  const auto kept = catalog_->MetricsAfter("demo", 0, {.every_steps = 2}, 10).value().points;
  for (const v1::MetricPoint& point : kept) {
    every_second.push_back(point.step());
  }
  EXPECT_THAT(every_second, ElementsAre(0, 2, 4));
  const auto range =
      catalog_
          ->QueryMetrics(
              "demo",
              {.kind = v1::METRIC_KIND_TRAINING, .start_step = 2, .end_step = 5, .limit = 2})
          .value()
          .points;
  ASSERT_THAT(range, SizeIs(2));
  EXPECT_EQ(range[0].step(), 2);
}

TEST_F(CatalogTest, ThinnedRangeHasItsFirstAndLastAndIsEven) {
  const AttemptKey attempt = Running("demo");
  std::vector<v1::MetricPoint> points;
  for (int step = 10; step <= 1000; step += step < 500 ? 1 : 50) points.push_back(Point(step, 1));
  ASSERT_TRUE(catalog_->PutMetrics(attempt, 1, points).ok());
  const auto steps = [&](int64_t start, int64_t end, int limit) {
    const auto range = catalog_
                           ->QueryMetrics("demo", {.kind = v1::METRIC_KIND_TRAINING,
                                                   .start_step = start,
                                                   .end_step = end,
                                                   .limit = limit,
                                                   .thinned = true})
                           .value()
                           .points;
    std::vector<int64_t> thinned;
    for (const v1::MetricPoint& point : range) thinned.push_back(point.step());
    return thinned;
  };
  EXPECT_THAT(steps(0, 0, 2), ElementsAre(10, 1000));
  EXPECT_THAT(steps(0, 0, 5), ElementsAre(10, 258, 550, 800, 1000));
  EXPECT_THAT(steps(20, 25, 10), ElementsAre(20, 21, 22, 23, 24)) << "no more than there are";
  EXPECT_THAT(steps(2000, 0, 5), IsEmpty());
}

// A week has ten million points; the cost of a thinned answer must not grow with them. Here fewer,
// written past the interface, since the test is to take seconds.
TEST_F(CatalogTest, LongHistoryIsServedThinnedAndExact) {
  constexpr int64_t kPoints = 1'000'000;
  Create("demo");
  catalog_.reset();
  {
    auto connection = Connection::Open(Path()).value();
    v1::MetricPoint point;
    (*point.mutable_values())["loss"] = 0.5;
    ASSERT_TRUE(connection->Execute("PRAGMA synchronous = OFF; BEGIN").ok());
    auto statement = connection->Prepare(
        "WITH RECURSIVE steps (step) AS (SELECT 1 UNION ALL SELECT step + 1 FROM steps WHERE step <"
        " ?1) INSERT INTO metrics (job, kind, step, attempt, tokens, time, point)"
        " SELECT 1, 1, step, 1, step, 0, ?2 FROM steps");
    ASSERT_TRUE(statement->Bind(kPoints).BindBlob(point.SerializeAsString()).Run().ok());
    ASSERT_TRUE(connection->Execute("COMMIT").ok());
  }
  Reopen();
  const absl::Time began = absl::Now();
  const auto thinned = catalog_->QueryMetrics(
      "demo", {.kind = v1::METRIC_KIND_TRAINING, .limit = 1000, .thinned = true});
  EXPECT_THAT(thinned->points, SizeIs(1000));
  EXPECT_EQ(thinned->points.front().step(), 1);
  EXPECT_EQ(thinned->points.back().step(), kPoints);
  // A scan of all takes longer; on an idle machine this takes some 20 ms.
  EXPECT_LT(absl::Now() - began, absl::Seconds(2));
  const auto tail = catalog_->QueryMetrics(
      "demo", {.kind = v1::METRIC_KIND_TRAINING, .start_step = kPoints - 9, .limit = 100});
  EXPECT_THAT(tail->points, SizeIs(10));
  EXPECT_THAT(catalog_->MetricsAfter("demo", 0, {.every_steps = 100'000}, 256).value().points,
              SizeIs(10));
  // No evaluation among so many: the streams of a watcher ask for this.
  EXPECT_THAT(
      catalog_->MetricsAfter("demo", 0, {.kind = v1::METRIC_KIND_EVALUATION}, 256).value().points,
      IsEmpty());
}

}  // namespace
}  // namespace lorsa::server
