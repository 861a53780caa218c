#include "bring.h"

#include <algorithm>

#include "attune/base/text.h"
#include "attune/os/files.h"
#include "exchange.h"
#include "run_folder.h"

namespace attune::launch {
namespace {

constexpr std::int64_t kPiece = 16 << 20;

Status BringFile(const AskThere& ask, const std::string& root, const Token& token,
                 const ListedFile& file, const std::string& mirror) {
  const std::string here = mirror + "/" + file.path;
  if (const auto facts = os::StatFile(here); facts && facts->size == file.size) {
    return {};
  }
  ATTUNE_RETURN_IF_ERROR(os::MakeFolder(here.substr(0, here.rfind('/'))));
  for (std::int64_t at = 0; at < file.size;) {
    ATTUNE_TRY(
        const std::string answer,
        ask(Encode(FetchRequest{root, token, file.path, at, std::min(kPiece, file.size - at)})));
    ATTUNE_TRY(const std::string bytes, DecodePiece(answer));
    if (bytes.empty()) {
      break;  // it became shorter
    }
    ATTUNE_RETURN_IF_ERROR(os::WriteRange(here, at, bytes));
    at += static_cast<std::int64_t>(bytes.size());
  }
  return {};
}

}  // namespace

Status BringBelow(const AskThere& ask, const std::string& root, const Token& token,
                  const std::string& path, const std::string& mirror, std::int64_t max_bytes) {
  ATTUNE_TRY(const std::string answer, ask(Encode(ListRequest{root, token, path})));
  ATTUNE_TRY(const std::vector<ListedFile> files, DecodeListed(answer));
  std::int64_t sum = 0;
  for (const ListedFile& file : files) {
    if (!IsPathBelow(file.path) || !file.path.starts_with(path + "/")) {
      return Fail(ErrorCode::kCorrupt,
                  "sent " + EscapeForDisplay(file.path, 100) + ", which nobody asked for");
    }
    if (file.size > max_bytes - sum) {
      continue;  // a part of a trace says nothing
    }
    sum += file.size;
    ATTUNE_RETURN_IF_ERROR(BringFile(ask, root, token, file, mirror));
  }
  return {};
}

}  // namespace attune::launch
