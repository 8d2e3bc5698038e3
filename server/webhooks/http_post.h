// One HTTP request, as a seam for tests.
#ifndef LORSA_SERVER_WEBHOOKS_HTTP_POST_H_
#define LORSA_SERVER_WEBHOOKS_HTTP_POST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lorsa::server {

class HttpPost {
 public:
  virtual ~HttpPost() = default;
  // The status of the answer, such as 200, whatever became of the answer's body. UNAVAILABLE saying
  // why if none came in time, CANCELLED if Cancel came before it. `headers` are whole lines.
  // Thread-safe.
  virtual absl::StatusOr<int> Post(const std::string& url, const std::vector<std::string>& headers,
                                   const std::string& body) = 0;
  // Ends the requests under way soon, and all later ones at once. Thread-safe.
  virtual void Cancel() = 0;
};

// With libcurl: http and https alone, no redirect is followed, no proxy asked; of an answer nothing
// but its status is kept, and no more than 64 KiB is read.
std::unique_ptr<HttpPost> MakeCurlPost(absl::Duration timeout);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_WEBHOOKS_HTTP_POST_H_
