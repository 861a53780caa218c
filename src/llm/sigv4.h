// AWS Signature Version 4, as far as one POST of a JSON body needs it. Our own, because libcurl's
// (7.88, Debian 12) signs the path as it is sent, while AWS signs it encoded once more: model ids
// with ':' fail (docs/decisions/0023-own-aws-signer.md). Algorithm: AWS General Reference, "Create
// a signed AWS API request".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/base/units.h"
#include "attune/llm/profile.h"

namespace attune::llm {

// Everything but A-Z a-z 0-9 - . _ ~ as %XX.
std::string UriEncode(std::string_view text);

struct SignedRequest {
  std::string method = "POST";
  std::string host;   // as in the Host header: with a port when it is not the scheme's own
  std::string path;   // as it is sent, already encoded once
  std::string query;  // canonical; empty here
  std::vector<std::pair<std::string, std::string>> headers;  // signed besides host and x-amz-*
  std::string body;
  std::string region, service = "bedrock";
  // S3 alone signs the path as it is sent.
  bool encode_path_again = true;
};
// The headers to add: x-amz-date, x-amz-security-token when there is one, Authorization.
std::vector<std::pair<std::string, std::string>> Sign(const SignedRequest& request,
                                                      const AwsKey& key, Instant now);

std::string HmacSha256(std::string_view key, std::string_view message);  // 32 bytes, RFC 2104

}  // namespace attune::llm
