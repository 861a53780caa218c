// libcurl's easy interface, one handle a request. No connection is kept between requests: a
// campaign asks its model minutes apart, and a connection of unknown health costs more than a
// handshake.
#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "attune/base/text.h"
#include "attune/os/http.h"

namespace attune::os {
namespace {

constexpr std::size_t kMaxHeaderBytes = 64 * 1024;

struct Transfer {
  const HttpRequest& request;
  HttpReply reply{};
  std::size_t header_bytes = 0;
  bool too_large = false;
  bool stopped = false;
};

std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  if (transfer.reply.body.size() + bytes > static_cast<std::size_t>(transfer.request.max_body)) {
    transfer.too_large = true;
    return 0;  // fewer than given: libcurl ends the transfer
  }
  transfer.reply.body.append(data, bytes);
  return bytes;
}

std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  transfer.header_bytes += bytes;
  if (transfer.header_bytes > kMaxHeaderBytes) {
    transfer.too_large = true;
    return 0;
  }
  const std::string_view line(data, bytes);
  if (line.starts_with("HTTP/")) {
    transfer.reply.headers.clear();  // a 100 Continue or a proxy's answer came before
    return bytes;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  transfer.reply.headers.emplace_back(std::move(name), Trim(line.substr(colon + 1)));
  return bytes;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.request.go_on || transfer.request.go_on()) return 0;
  transfer.stopped = true;
  return 1;
}

struct Outcome {
  HttpTrouble trouble;
  bool sent;
};

Outcome TroubleOf(CURLcode code, const Transfer& transfer, bool wrote) {
  if (transfer.too_large) return {HttpTrouble::kTooLarge, true};
  if (transfer.stopped) return {HttpTrouble::kStopped, wrote};
  switch (static_cast<int>(code)) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return {HttpTrouble::kConnect, false};
    case CURLE_SSL_CONNECT_ERROR:
      return {HttpTrouble::kTls, false};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return {HttpTrouble::kCertificate, false};
    case CURLE_OPERATION_TIMEDOUT:
      return {HttpTrouble::kTimeout, wrote};
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP3:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // HTTP/0.9: text that is no HTTP
      return {HttpTrouble::kReset, wrote};
    case CURLE_BAD_CONTENT_ENCODING:
      return {HttpTrouble::kEncoding, true};
    case CURLE_URL_MALFORMAT:
      return {HttpTrouble::kUrl, false};
    default:
      return {HttpTrouble::kInternal, wrote};
  }
}

void StartLibraryOnce() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

class Handle {
 public:
  Handle() : easy_(curl_easy_init()) {}
  ~Handle() {
    curl_slist_free_all(headers_);
    if (easy_ != nullptr) curl_easy_cleanup(easy_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  CURL* get() const { return easy_; }
  void Header(const std::string& line) { headers_ = curl_slist_append(headers_, line.c_str()); }
  curl_slist* headers() const { return headers_; }

 private:
  CURL* easy_;
  curl_slist* headers_ = nullptr;
};

void SetUp(Handle& handle, Transfer& transfer, char* error) {
  const HttpRequest& request = transfer.request;
  CURL* const easy = handle.get();
  const auto set = [easy](CURLoption option, auto value) {
    (void)curl_easy_setopt(easy, option, value);
  };
  set(CURLOPT_ERRORBUFFER, error);
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "https,http");
  set(CURLOPT_FOLLOWLOCATION, 0L);  // a key must not travel to another host
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!request.ca_file.empty()) set(CURLOPT_CAINFO, request.ca_file.c_str());
  // What goes to this machine in clear text must not leave it for a proxy of the environment.
  const Result<Origin> origin = OriginOf(request.url);
  if (origin && origin->IsLoopback()) set(CURLOPT_NOPROXY, "*");
  if (request.method == "GET") {
    set(CURLOPT_HTTPGET, 1L);
  } else {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.c_str());
  }
  set(CURLOPT_ACCEPT_ENCODING, request.compressed ? "gzip" : "identity");
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME,
      static_cast<long>(std::max<std::int64_t>(1, request.stall_timeout.count() / 1000)));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, 60L);
  set(CURLOPT_TCP_KEEPINTVL, 30L);
  for (const auto& [name, value] : request.headers) handle.Header(name + ": " + value);
  handle.Header("Expect:");  // else a second's wait for "100 Continue" on large bodies
  set(CURLOPT_HTTPHEADER, handle.headers());
}

class CurlTransport final : public HttpTransport {
 public:
  HttpOutcome Perform(const HttpRequest& request) override {
    StartLibraryOnce();
    Handle handle;
    if (handle.get() == nullptr) return HttpFailure{HttpTrouble::kInternal, "no handle", false};
    Transfer transfer{.request = request};
    char error[CURL_ERROR_SIZE] = "";
    SetUp(handle, transfer, error);
    const CURLcode code = curl_easy_perform(handle.get());
    long status = 0;
    (void)curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
    curl_off_t total_us = 0;
    (void)curl_easy_getinfo(handle.get(), CURLINFO_TOTAL_TIME_T, &total_us);
    if (code != CURLE_OK) {
      long wrote = 0;
      (void)curl_easy_getinfo(handle.get(), CURLINFO_REQUEST_SIZE, &wrote);
      const Outcome outcome = TroubleOf(code, transfer, wrote > 0);
      std::string detail = error[0] != '\0' ? error : curl_easy_strerror(code);
      if (transfer.too_large) {
        detail = fmt::format("the reply is larger than {} bytes", request.max_body);
      }
      return HttpFailure{outcome.trouble, EscapeForDisplay(detail, 300), outcome.sent};
    }
    transfer.reply.status = static_cast<int>(status);
    transfer.reply.elapsed = Millis{total_us / 1000};
    return std::move(transfer.reply);
  }
};

}  // namespace

std::unique_ptr<HttpTransport> MakeHttpTransport() { return std::make_unique<CurlTransport>(); }

}  // namespace attune::os
