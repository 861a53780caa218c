#include "attune/base/redact.h"

#include <gtest/gtest.h>

namespace attune {
namespace {

TEST(LooksLikeSecret, KnowsTheFormsOfKeys) {
  for (const char* secret :
       {"sk-ant-api03-abcdefghijkl0123456789", "hf_abcdefghij0123456789xyz",
        "see ghp_0123456789abcdefghijABCDEFGHIJ012345!", "AKIA0123456789ABCDEF",
        "https://user:pw@host/x", "postgres://u:p@h", "-----BEGIN RSA PRIVATE KEY-----"}) {
    EXPECT_TRUE(LooksLikeSecret(secret)) << secret;
  }
  for (const char* text : {"task-abcdefghijklmnopqrstuvwxyz0123", "sk-learn", "https://host/x@y",
                           "https://user@host/x", "git@github.com:x/y", "/data/hf_cache/models",
                           "risk-free-0123456789012345678901", "https://host:8080/a@b"}) {
    EXPECT_FALSE(LooksLikeSecret(text)) << text;
  }
}

TEST(Redactor, ReplacesAKnownValueInEveryFormItTravelsIn) {
  Redactor redact;
  redact.Know("ATTUNE_LLM_API_KEY", "canary+key/12345");
  EXPECT_EQ(redact("key canary+key/12345!"), "key [redacted:ATTUNE_LLM_API_KEY]!");
  EXPECT_EQ(redact("Basic Y2FuYXJ5K2tleS8xMjM0NQ=="), "Basic [redacted:ATTUNE_LLM_API_KEY]");
  EXPECT_EQ(redact("Basic Y2FuYXJ5K2tleS8xMjM0NQ"), "Basic [redacted:ATTUNE_LLM_API_KEY]");
  // In the middle of more text the last digits are mixed with what follows.
  EXPECT_EQ(redact("Y2FuYXJ5K2tleS8xMjM0NTp4").find("Y2FuYXJ5"), std::string::npos);
  EXPECT_EQ(redact("?key=canary%2Bkey%2F12345&x"), "?key=[redacted:ATTUNE_LLM_API_KEY]&x");
}

TEST(Redactor, ReplacesALongerValueBeforeOneThatItHolds) {
  Redactor redact;
  redact.Know("SHORT", "secret-1");
  redact.Know("LONG", "secret-1-and-more");
  EXPECT_EQ(redact("secret-1-and-more"), "[redacted:LONG]");
}

TEST(Redactor, ReplacesTheFormsOfKeysThatNobodyTold) {
  const Redactor redact;
  EXPECT_EQ(redact("Incorrect API key provided: sk-ant-api03-abcdefghijkl0123456789."),
            "Incorrect API key provided: [redacted].");
  EXPECT_EQ(redact("Authorization: Bearer abcdef0123456789abcdef"), "Authorization: [redacted]");
  EXPECT_EQ(redact("at https://user:pw@host/x twice https://user:pw@host/x"),
            "at https://[redacted]@host/x twice https://[redacted]@host/x");
  EXPECT_EQ(redact("a -----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY----- b"),
            "a [redacted] b");
  EXPECT_EQ(redact("MIIB\n-----END EC PRIVATE KEY-----\nb"), "[redacted]\nb") << "its tail";
  EXPECT_EQ(redact("-----END CERTIFICATE----- b"), "-----END CERTIFICATE----- b");
}

TEST(Redactor, LeavesWordsOfTheTradeAndShortValues) {
  Redactor redact;
  redact.Know("SHORT", "abc");
  for (const char* text : {"use_cls_token", "abc", "task-abcdefghijklmnopqrstuvwxyz0123",
                           "tokens/s/GPU: 801.2", "Bearer of news", "--calculate-per-token-loss"}) {
    EXPECT_EQ(redact(text), text);
  }
}

}  // namespace
}  // namespace attune
