#include "server/webhooks/webhook_signature.h"

#include <gtest/gtest.h>

namespace lorsa::server {
namespace {

// echo -n '1796000000.{"id": "a:3"}' | openssl dgst -sha256 -hmac 'a key of sixteen bytes'
TEST(WebhookSignatureTest, IsWhatOpensslSays) {
  EXPECT_EQ(WebhookSignature("a key of sixteen bytes", absl::FromUnixSeconds(1'796'000'000),
                             R"({"id": "a:3"})"),
            "t=1796000000,v1=6063a2917e1798609aba6d506ee365ac7c027990e63f1baa2b18107f5aeef172");
}

TEST(WebhookSignatureTest, DependsOnKeyTimeAndBody) {
  const absl::Time now = absl::FromUnixSeconds(5);
  const std::string signature = WebhookSignature("key", now, "body");
  EXPECT_NE(signature, WebhookSignature("kez", now, "body"));
  EXPECT_NE(signature, WebhookSignature("key", now, "bodz"));
  EXPECT_NE(signature.substr(4),
            WebhookSignature("key", absl::FromUnixSeconds(6), "body").substr(4));
}

}  // namespace
}  // namespace lorsa::server
