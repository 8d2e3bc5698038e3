#include "server/webhooks/webhook_receivers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lorsa::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WebhookReceiversTest, HostsThatAreNamedAreAllowed) {
  const WebhookReceivers receivers({"hooks.example.org", "127.0.0.1:8080", "[::1]:8080"});
  for (const char* url :
       {"https://hooks.example.org/a?b=c", "http://hooks.example.org",
        "https://HOOKS.example.org:443/", "http://127.0.0.1:8080/x", "http://[::1]:8080/"}) {
    EXPECT_EQ(receivers.Check(url), absl::OkStatus()) << url;
  }
}

TEST(WebhookReceiversTest, AllElseIsRefused) {
  const WebhookReceivers receivers({"hooks.example.org", "127.0.0.1:8080"});
  for (const char* url : {
           "",
           "hook",
           "http://",
           "http://other.example.org/",
           "http://169.254.169.254/latest",
           "http://127.0.0.1:8081/",
           "http://127.0.0.1/",
           "http://hooks.example.org:8080/",
           "http://hooks.example.org@evil.example/",
           "http://evil.example#@hooks.example.org/",
           "http://user:password@hooks.example.org/",
           "file://hooks.example.org/etc/passwd",
           "gopher://hooks.example.org/",
           "http://hooks.example.org.evil.example/",
           "http://hooks.example.org\\@evil.example/",
           "http://hooks.example.org /",
           "http://evil.example/?hooks.example.org",
       }) {
    EXPECT_TRUE(absl::IsInvalidArgument(receivers.Check(url))) << url;
  }
  EXPECT_FALSE(receivers.Check("http://hooks.example.org/" + std::string(2048, 'a')).ok());
}

// Other ways to write an address are the same address, to the check as to the call.
TEST(WebhookReceiversTest, AnAddressIsKnownHoweverItIsWritten) {
  const WebhookReceivers receivers({"127.0.0.1:8080"});
  EXPECT_EQ(receivers.Check("http://2130706433:8080/"), absl::OkStatus());
  EXPECT_FALSE(receivers.Check("http://2130706434:8080/").ok());
}

TEST(WebhookReceiversTest, AnAddressInAZoneIsAnotherReceiver) {
  const WebhookReceivers plain({"[fe80::1]:8080"});
  EXPECT_EQ(plain.Check("http://[fe80::1]:8080/"), absl::OkStatus());
  EXPECT_FALSE(plain.Check("http://[fe80::1%25eth0]:8080/").ok());
  EXPECT_FALSE(plain.Check("http://[fe80::1%eth0]:8080/").ok());
  const WebhookReceivers zoned({"[fe80::1%25eth0]:8080"});
  EXPECT_EQ(zoned.Check("http://[fe80::1%25eth0]:8080/"), absl::OkStatus());
  EXPECT_FALSE(zoned.Check("http://[fe80::1%25eth1]:8080/").ok());
  EXPECT_FALSE(zoned.Check("http://[fe80::1]:8080/").ok());
}

TEST(WebhookReceiversTest, WhatIsWrongIsSaid) {
  const WebhookReceivers receivers({"example.org"});
  const auto said = [&](const char* url) { return std::string(receivers.Check(url).message()); };
  EXPECT_THAT(said("http://"), AllOf(HasSubstr("is no URL"), Not(HasSubstr("password"))));
  EXPECT_THAT(said("http://example.org:port/"), Not(HasSubstr("password")));
  EXPECT_THAT(said("http://me:secret@example.org/"), HasSubstr("password"));
}

TEST(WebhookReceiversTest, WithoutHostsThereAreNoWebhooks) {
  const absl::Status status = WebhookReceivers().Check("http://127.0.0.1/");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("allows no webhooks"));
}

TEST(ValidateReceiverTest, IsAHostWithOrWithoutAPort) {
  for (const char* host :
       {"example.org", "example.org:8080", "127.0.0.1", "[::1]:80", "[fe80::1%25eth0]:80"}) {
    EXPECT_EQ(ValidateReceiver(host), absl::OkStatus()) << host;
  }
  for (const char* host : {"", "http://example.org", "example.org/path", "a b", "me@example.org",
                           "example.org:0x50", "example.org:", "example.org:0", "a..org", ".org"}) {
    EXPECT_FALSE(ValidateReceiver(host).ok()) << host;
  }
}

}  // namespace
}  // namespace lorsa::server
