// RFC 4231's vectors for the keyed hash, and AWS's published ones for Signature Version 4
// ("aws-sig-v4-test-suite": key AKIDEXAMPLE, 2015-08-30T12:36:00Z, us-east-1, service "service").
#include "sigv4.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "made.h"

namespace attune::llm {
namespace {

std::string Hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

TEST(HmacSha256, AgreesWithRfc4231) {
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

const AwsKey kKey{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};

std::string SignatureOf(SignedRequest request, const AwsKey& key = kKey) {
  request.host = "example.amazonaws.com";
  request.region = "us-east-1";
  request.service = "service";
  for (const auto& [name, value] : Sign(request, key, *ParseRfc3339("2015-08-30T12:36:00Z"))) {
    if (name == "Authorization") return value.substr(value.find("Signature=") + 10);
  }
  return "none";
}

TEST(Sign, AgreesWithThePublishedVectors) {
  SignedRequest get;
  get.method = "GET";
  get.path = "/";
  EXPECT_EQ(SignatureOf(get), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  SignedRequest post;
  post.path = "/";
  EXPECT_EQ(SignatureOf(post), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
}

TEST(Sign, EncodesThePathOnceMoreAndSignsTheSessionToken) {
  SignedRequest request;
  request.path = "/model/a-v2%3A0/converse";
  const std::string twice = SignatureOf(request);
  request.encode_path_again = false;
  request.path = "/model/a-v2%253A0/converse";
  EXPECT_EQ(SignatureOf(request), twice);

  AwsKey session = kKey;
  session.session_token = "token";
  EXPECT_NE(SignatureOf(request, session), twice);
}

TEST(Client, SignsBedrockRequestsWithoutSendingTheSecret) {
  Profile profile = MadeProfile(Api::kBedrock);
  profile.auth = Auth::kSigV4;
  profile.key.reset();
  profile.endpoint = "https://bedrock-runtime.us-east-1.amazonaws.com";
  profile.model = "anthropic.claude-x-v2:0";
  profile.region = "us-east-1";
  profile.aws = kKey;
  Bench bench({profile});
  bench.http.Reply(200, Called(Api::kBedrock, "{}"));
  (void)bench.Ask();
  std::string all;
  for (const auto& [name, value] : bench.http.requests[0].headers)
    all += name + ": " + value + "\n";
  EXPECT_NE(all.find("Credential=AKIDEXAMPLE/20261130/us-east-1/bedrock/aws4_request, "
                     "SignedHeaders=content-type;host;x-amz-date"),
            std::string::npos)
      << all;
  EXPECT_EQ(all.find("wJalr"), std::string::npos);
}

}  // namespace
}  // namespace attune::llm
