#include "server/services/set_folders.h"

#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr int kSetsPerPage = 100;

absl::Status Busy(const std::string& folder) {
  return WithReason(
      absl::UnavailableError(absl::StrCat("the files in ", folder,
                                          " are being sent, registered or deleted just now; ",
                                          "try again once that has ended")),
      "SET_BUSY");
}

}  // namespace

bool IsSameFolder(const std::string& a, const std::string& b) {
  std::error_code error;  // one of the two is gone
  return a == b || std::filesystem::equivalent(a, b, error);
}

absl::StatusOr<std::vector<v1::ActivationSet>> SetsIn(const Catalog& catalog,
                                                      const std::string& folder) {
  std::vector<v1::ActivationSet> found;
  std::string after_id;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(std::vector<v1::ActivationSet> page,
                           catalog.ListActivationSets(after_id, kSetsPerPage));
    if (page.empty()) return found;
    LORSA_ASSIGN_OR_RETURN(after_id, IdFromName("activationSets", page.back().name()));
    std::copy_if(std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()),
                 std::back_inserter(found),
                 [&](const v1::ActivationSet& set) { return IsSameFolder(set.path(), folder); });
  }
}

absl::StatusOr<FolderClaims::Claim> FolderClaims::Share(const std::string& folder) {
  return Take(folder, /*alone=*/false);
}

absl::StatusOr<FolderClaims::Claim> FolderClaims::TakeAlone(const std::string& folder) {
  return Take(folder, /*alone=*/true);
}

absl::StatusOr<FolderClaims::Claim> FolderClaims::Take(const std::string& folder, bool alone) {
  // An upload claims its folder before that is made.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(folder, error);
  const std::string key = error ? folder : real.string();
  absl::MutexLock lock(&mutex_);
  Holders& holders = claimed_[key];
  if (holders.alone || (alone && holders.count > 0)) return Busy(folder);
  ++holders.count;
  holders.alone = alone;
  return Claim(this, [key](FolderClaims* claims) { claims->Release(key); });
}

void FolderClaims::Release(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = claimed_.find(key);
  if (--found->second.count == 0) claimed_.erase(found);
}

}  // namespace lorsa::server
