// Messages of exchange.h about launches that a scheduler starts, and what they leave behind.
#include "attune/base/text.h"
#include "exchange.h"
#include "exchange_fields.h"

namespace attune::launch {

std::string Encode(const PlaceRequest& q) {
  Record r("place");
  r.Add("root", q.root);
  r.Add("token", q.token.value);
  r.Add("plan", q.plan);
  r.Add("script", q.script);
  return r.Encode();
}

Result<PlaceRequest> DecodePlaceRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "place"));
  Fields in(r);
  PlaceRequest q{in.Text("root"), Token(in.Text("token")), in.Text("plan"), in.Text("script")};
  if (!in.ok()) {
    return Unfit("place");
  }
  return q;
}

std::string EncodePlaced(bool fresh) {
  Record r("placed");
  r.Add("fresh", fresh ? 1 : 0);
  return r.Encode();
}

Result<bool> DecodePlaced(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "placed"));
  Fields in(r);
  const bool fresh = in.Small("fresh") == 1;
  if (!in.ok()) {
    return Unfit("placed");
  }
  return fresh;
}

std::string Encode(const ListRequest& q) {
  Record r("list");
  r.Add("root", q.root);
  r.Add("token", q.token.value);
  r.Add("path", q.path);
  return r.Encode();
}

Result<ListRequest> DecodeListRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "list"));
  Fields in(r);
  ListRequest q{in.Text("root"), Token(in.Text("token")), in.Text("path")};
  if (!in.ok()) {
    return Unfit("list");
  }
  return q;
}

std::string Encode(const std::vector<ListedFile>& files) {
  Record r("listed");
  for (const ListedFile& file : files) {
    r.Add("size", file.size);
    r.Add("file", file.path);
  }
  return r.Encode();
}

Result<std::vector<ListedFile>> DecodeListed(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "listed"));
  std::vector<ListedFile> files;
  std::int64_t size = -1;
  for (const auto& [key, value] : r.fields()) {
    if (key == "size") {
      size = ParseInt(value).value_or(-1);
    } else if (key == "file" && size >= 0) {
      files.push_back({value, size});
    } else {
      return Unfit("listed");
    }
  }
  return files;
}

std::string Encode(const CallRequest& q) {
  Record r("call");
  for (const std::string& word : q.argv) {
    r.Add("word", word);
  }
  r.Add("input", q.input);
  r.Add("limit_ms", q.limit.count());
  return r.Encode();
}

Result<CallRequest> DecodeCallRequest(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "call"));
  Fields in(r);
  CallRequest q{{}, in.Text("input"), Millis{in.Int("limit_ms")}};
  for (const auto& [key, value] : r.fields()) {
    if (key == "word") {
      q.argv.push_back(value);
    }
  }
  if (!in.ok() || q.argv.empty() || q.limit <= Millis{0}) {
    return Unfit("call");
  }
  return q;
}

std::string Encode(const CallAnswer& a) {
  Record r("called");
  r.Add("code", a.exit_code);
  r.Add("out", a.out);
  r.Add("err", a.err);
  r.Add("out_cut", a.out_cut ? 1 : 0);
  return r.Encode();
}

Result<CallAnswer> DecodeCallAnswer(std::string_view bytes) {
  ATTUNE_TRY(const Record r, DecodeRecord(bytes, "called"));
  Fields in(r);
  CallAnswer a;
  a.exit_code = in.Small("code");
  a.out = in.Text("out");
  a.err = in.Text("err");
  a.out_cut = in.Int("out_cut") == 1;
  if (!in.ok()) {
    return Unfit("called");
  }
  return a;
}

}  // namespace attune::launch
