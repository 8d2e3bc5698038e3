#include "server/catalog/transaction.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>

#include "base/status_macros.h"
#include "server/catalog/catalog.h"
#include "server/catalog/connection_pool.h"
#include "server/catalog/job_table.h"

namespace lorsa::server {
namespace {

// Nobody but the pool and the writer makes one, so that no read or write can do without.
static_assert(!std::is_constructible_v<ReadTransaction, Connection&>);
static_assert(!std::is_constructible_v<WriteTransaction, Connection&>);
static_assert(!std::is_invocable_v<decltype(ReadJob), Connection&, absl::string_view>);
static_assert(!std::is_invocable_v<decltype(MarkDeleted), ReadTransaction&, int64_t>);

class TransactionTest : public ::testing::Test {
 protected:
  TransactionTest() {
    std::string folder = ::testing::TempDir() + "transaction_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    catalog_ = Catalog::Open(Path()).value();
  }
  ~TransactionTest() override {
    catalog_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Path() const { return folder_ + "/catalog.sqlite"; }
  void Create(const std::string& id) {
    NewJob job;
    job.id = id;
    EXPECT_TRUE(catalog_->CreateJob(job, absl::UnixEpoch()).ok());
  }

  std::string folder_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(TransactionTest, ReadSeesNothingThatIsCommittedMeanwhile) {
  ConnectionPool pool(Path(), /*read_only=*/false);
  const auto count = [](ReadTransaction& transaction) {
    return CountJobsInState(transaction, v1::JOB_STATE_QUEUED).value();
  };
  const absl::Status read = pool.Run([&](ReadTransaction& transaction) {
    EXPECT_EQ(count(transaction), 0);
    Create("demo");
    EXPECT_EQ(count(transaction), 0) << "the second read is of another moment than the first";
    return absl::OkStatus();
  });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(pool.Run([&](ReadTransaction& transaction) {
                  return absl::StatusOr<int64_t>(count(transaction));
                })
                .value(),
            1);
}

TEST_F(TransactionTest, ReadThatFailsLeavesItsConnectionUsable) {
  ConnectionPool pool(Path(), /*read_only=*/false);
  for (int i = 0; i < 2; ++i) {
    const absl::Status read = pool.Run([&](ReadTransaction& transaction) -> absl::Status {
      LORSA_ASSIGN_OR_RETURN(const StoredJob job, ReadJob(transaction, "gone"));
      return absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsNotFound(read)) << read;
  }
}

}  // namespace
}  // namespace lorsa::server
