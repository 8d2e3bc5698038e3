#include "server/webhooks/webhook_receivers.h"

#include <curl/curl.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxUrlBytes = 2048;

struct UrlParts {
  std::string scheme;
  std::string host;
  std::string port;
};

absl::Status NoUrl() {
  return absl::InvalidArgumentError("is no URL; give one such as https://example.org/hook");
}

absl::StatusOr<std::string> Part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return NoUrl();
  const std::string copy(text);
  curl_free(text);
  return copy;
}

// As it is written. libcurl tells an IPv6 address apart from its zone, which is another receiver.
absl::StatusOr<std::string> HostOf(CURLU* url) {
  LORSA_ASSIGN_OR_RETURN(std::string host, Part(url, CURLUPART_HOST));
  const absl::StatusOr<std::string> zone = Part(url, CURLUPART_ZONEID);
  if (zone.ok()) host.insert(host.rfind(']'), absl::StrCat("%25", *zone));
  return host;
}

// A label between two dots, or before the first, may not be empty.
bool IsName(const std::string& host) {
  return !absl::StartsWith(host, ".") && !absl::StrContains(host, "..");
}

absl::StatusOr<UrlParts> Parse(const std::string& text) {
  if (text.size() > kMaxUrlBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", text.size(), " characters; give at most ", kMaxUrlBytes));
  }
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), &curl_url_cleanup);
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_DISALLOW_USER);
  if (code == CURLUE_USER_NOT_ALLOWED) {
    return absl::InvalidArgumentError(
        "holds a user or password, which everybody could read; give one such as "
        "https://example.org/hook");
  }
  if (code != CURLUE_OK) return NoUrl();
  UrlParts parts;
  LORSA_ASSIGN_OR_RETURN(parts.scheme, Part(url.get(), CURLUPART_SCHEME));
  LORSA_ASSIGN_OR_RETURN(parts.host, HostOf(url.get()));
  LORSA_ASSIGN_OR_RETURN(parts.port, Part(url.get(), CURLUPART_PORT));
  return parts;
}

bool Names(const std::string& allowed, const UrlParts& url) {
  if (absl::EqualsIgnoreCase(allowed, absl::StrCat(url.host, ":", url.port))) return true;
  return url.port == (url.scheme == "https" ? "443" : "80") &&
         absl::EqualsIgnoreCase(allowed, url.host);
}

}  // namespace

absl::Status WebhookReceivers::Check(const std::string& url) const {
  if (hosts_.empty()) {
    return absl::InvalidArgumentError(
        "cannot be used: this server allows no webhooks; leave it empty, or have its operator set "
        "`webhooks` in the configuration");
  }
  LORSA_ASSIGN_OR_RETURN(const UrlParts parts, Parse(url));
  if (parts.scheme != "http" && parts.scheme != "https") {
    return absl::InvalidArgumentError(
        absl::StrCat("has the scheme ", parts.scheme, "; give http or https"));
  }
  for (const std::string& host : hosts_) {
    if (Names(host, parts)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "names ", parts.host, ":", parts.port, ", which is not among the receivers that ",
      "this server allows; have its operator add it to webhooks.allowed_hosts"));
}

absl::Status ValidateReceiver(const std::string& host) {
  const absl::StatusOr<UrlParts> parts = Parse(absl::StrCat("http://", host, "/"));
  if (parts.ok() && Names(host, *parts) && IsName(parts->host) && parts->port != "0") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("names '", host, "', which is not HOST or HOST:PORT"));
}

}  // namespace lorsa::server
