#include <curl/curl.h>
#include <sys/socket.h>

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/webhooks/http_post.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxAnswerBytes = 64 << 10;

// Workers are started by this process, and inherit nothing.
curl_socket_t OpenSocket(void*, curlsocktype, curl_sockaddr* address) {
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Reads past the answer's body; 0 ends the request.
size_t Skip(char*, size_t size, size_t count, void* seen) {
  size_t& bytes = *static_cast<size_t*>(seen);
  bytes += size * count;
  return bytes > kMaxAnswerBytes ? 0 : size * count;
}

int StopIfCancelled(void* cancelled, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<std::atomic<bool>*>(cancelled) ? 1 : 0;
}

class CurlPost final : public HttpPost {
 public:
  explicit CurlPost(absl::Duration timeout) : timeout_(timeout) {}

  absl::StatusOr<int> Post(const std::string& url, const std::vector<std::string>& headers,
                           const std::string& body) override {
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                   &curl_easy_cleanup);
    if (curl == nullptr) return absl::UnavailableError("libcurl cannot be started");
    if (cancelled_) return Cancelled();
    curl_slist* lines = nullptr;
    for (const std::string& header : headers) lines = curl_slist_append(lines, header.c_str());
    const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> owned(lines,
                                                                            &curl_slist_free_all);
    size_t answer_bytes = 0;
    Set(curl.get(), url, lines, body, answer_bytes);
    const CURLcode code = curl_easy_perform(curl.get());
    long status = 0;  // NOLINT(google-runtime-int): libcurl's type
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    // Once it is there the receiver has decided, however the body behind it ended.
    if (status != 0) return static_cast<int>(status);
    if (code == CURLE_ABORTED_BY_CALLBACK) return Cancelled();
    return absl::UnavailableError(curl_easy_strerror(code));
  }

  void Cancel() override { cancelled_ = true; }

 private:
  static absl::Status Cancelled() { return absl::CancelledError("the server is stopping"); }

  void Set(CURL* curl, const std::string& url, curl_slist* headers, const std::string& body,
           size_t& answer_bytes) {
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, absl::ToInt64Milliseconds(timeout_));
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // Else its end waits for a name's address.
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Skip);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer_bytes);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &StopIfCancelled);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &cancelled_);
  }

  const absl::Duration timeout_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace

std::unique_ptr<HttpPost> MakeCurlPost(absl::Duration timeout) {
  return std::make_unique<CurlPost>(timeout);
}

}  // namespace lorsa::server
